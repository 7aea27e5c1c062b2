package dicom

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// writeSeries writes four slices with these elements below a folder.
func writeSeries(t *testing.T, root, number string, o [6]float64, normal stack.Vector, tags map[tag.Tag]string) {
	t.Helper()
	dir := filepath.Join(root, number)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeStack(t, dir, "1.2."+number, o, line(stack.Vector{}, normal, 0, 2, 4, 6), func(_ int, f []field) []field {
		f = set(f, tag.SeriesNumber, "IS", number)
		for key, value := range tags {
			f = set(f, key, key.VR(), value)
		}
		return f
	})
}

// Choices that mean the same are one, whatever their order and capitals.
func TestSameWords(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"description~portal,plane=axial", "plane=Axial, Description~Portal", true}, {"", "", true},
		{"description~portal", "description=portal", false}, {"description~portal", "", false},
		{"kernel~b", "kernel~c", false}, {"3", "4", true}, // no words: neither chooses by any
	} {
		if got := SameWords(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}

func TestWordsChooseSeries(t *testing.T) {
	root := t.TempDir()
	up, ahead := stack.Vector{0, 0, 1}, stack.Vector{0, 1, 0}
	coronal := [6]float64{1, 0, 0, 0, 0, -1}
	for n, description := range []string{"Abdomen arteriell 1.0", "Abdomen portal-venös 1.0", "Abdomen spät 1.0"} {
		tags := map[tag.Tag]string{
			tag.SeriesDescription:    description,
			tag.SpecificCharacterSet: "ISO_IR 192",
			tag.ProtocolName:         "Leber 3-phasig",
			tag.ConvolutionKernel:    "Br40d",
		}
		if n == 2 {
			tags[tag.ConvolutionKernel] = "Br59d"
			tags[tag.ContrastBolusAgentPhase] = "LATE"
		}
		writeSeries(t, root, fmt.Sprint(n+1), axial, up, tags)
	}
	for n, description := range []string{"t2_tse_tra", "t2_tse_cor", "ep2d_diff_tra", "ep2d_diff_tra",
		"ep2d_diff_tra_ADC"} {
		tags := map[tag.Tag]string{
			tag.Modality:          "MR",
			tag.SeriesDescription: description,
			tag.SOPClassUID:       "1.2.840.10008.5.1.4.1.1.4",
		}
		o, normal := axial, up
		switch n {
		case 1:
			o, normal = coronal, ahead
		case 2, 3:
			tags[tag.SequenceName] = []string{"*ep_b50t", "*ep_b800t"}[n-2]
		case 4:
			tags[tag.ImageType] = "DERIVED\\PRIMARY\\DIFFUSION\\ADC"
		}
		writeSeries(t, root, fmt.Sprint(n+4), o, normal, tags)
	}
	series, _, err := Scan(root)
	if err != nil || len(series) != 8 {
		t.Fatalf("%d series, %v", len(series), err)
	}
	for _, c := range []struct{ wanted, number, err string }{
		{"description~PORTAL", "2", ""},
		{"Description~PORTAL", "2", ""},
		{"description~venös", "2", ""},
		{"description=Abdomen spät 1.0", "3", ""},
		{"kernel~br59", "3", ""},
		{"phase~late", "3", ""},
		{"modality~ct,kernel=Br59d", "3", ""},
		{"description~t2,plane=axial", "4", ""},
		{" description ~ t2 , plane=coronal", "5", ""},
		{"phase=b 50", "6", ""},
		{"phase~b 800", "7", ""},
		{"description=ep2d_diff_tra,phase~800", "7", ""},
		{"type~adc", "8", ""},
		{"2", "2", ""},
		{"1.2.3", "3", ""},
		{"protocol~leber", "",
			`series protocol~leber is not one but 3 (choose by UID, by number and part: 3.2, or by words: description~portal,kernel=B30f):` +
				"\n  CT series 1: 4 axial slices of 12x10, explicit VR little endian, \"Abdomen arteriell 1.0\"," +
				" kernel Br40d" +
				"\n  CT series 2: 4 axial slices of 12x10, explicit VR little endian, \"Abdomen portal-venös " +
				"1.0\", kernel Br40d" +
				"\n  CT series 3: 4 axial slices of 12x10, explicit VR little endian, \"Abdomen spät 1.0\", " +
				"kernel Br59d, late"},
		{"description~pancreas", "", "there is no series description~pancreas; there are:"},
		{"name~x", "",
			`series "name~x": there is no word name: must be one of description, protocol, kernel, phase, modality, plane, type, unit`},
		{"kernel~", "", `series "kernel~": words have the form`},
		{"kernel~a,b", "", "words have the form"},
	} {
		s, _, err := Choose(series, c.wanted)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.wanted, err)
			}
			continue
		}
		if err != nil || s.Number != c.number {
			t.Errorf("%s: %v, %v", c.wanted, s, err)
		}
	}
	if _, why, err := Choose(series, ""); err != nil ||
		why != `the largest axial CT of 8 series, as large as series 2 "Abdomen portal-venös 1.0", series 3 "Abdomen spät 1.0" "late"` {
		t.Errorf("%s, %v", why, err)
	}
}

// Volumes of one SeriesInstanceUID that only one attribute tells apart: phases of breathing and of
// the heart, contrast, b-values, units.
func TestVolumesToldApartByOneAttribute(t *testing.T) {
	for _, c := range []struct {
		tag    tag.Tag
		values [2]string
		phases [2]string
	}{
		{tag.NominalPercentageOfRespiratoryPhase, [2]string{"0", "50"},
			[2]string{"respiratory 0 %", "respiratory 50 %"}},
		{tag.RespiratoryCyclePosition, [2]string{"END_EXPIRATION", "END_INSPIRATION"},
			[2]string{"respiratory end_expiration", "respiratory end_inspiration"}},
		{tag.StartingRespiratoryPhase, [2]string{"10", "60"},
			[2]string{"respiratory from 10 %", "respiratory from 60 %"}},
		{tag.EndingRespiratoryAmplitude, [2]string{"10", "60"},
			[2]string{"EndingRespiratoryAmplitude 10", "EndingRespiratoryAmplitude 60"}},
		{tag.NominalRespiratoryTriggerDelayTime, [2]string{"300", "900"},
			[2]string{"respiratory 300 ms", "respiratory 900 ms"}},
		{tag.NominalPercentageOfCardiacPhase, [2]string{"30", "75"}, [2]string{"cardiac 30 %", "cardiac 75 %"}},
		{tag.CardiacCyclePosition, [2]string{"END_DIASTOLE", "END_SYSTOLE"},
			[2]string{"cardiac end_diastole", "cardiac end_systole"}},
		{tag.ContrastBolusAgentPhase, [2]string{"POST_CONTRAST", "PRE_CONTRAST"},
			[2]string{"post_contrast", "pre_contrast"}},
		{tag.DiffusionBValue, [2]string{"50", "800"}, [2]string{"b 50", "b 800"}},
		{tag.SequenceName, [2]string{"*ep_b50t", "ep_b800t"}, [2]string{"b 50", "b 800"}},
		{tag.EchoTime, [2]string{"2.3", "4.6"}, [2]string{"EchoTime 2.3", "EchoTime 4.6"}},
		{tag.RescaleType, [2]string{"HU", "MGML"}, [2]string{"", ""}},
		{tag.SeriesDescription, [2]string{"20%", "70%"}, [2]string{"", ""}},
	} {
		dir := t.TempDir()
		writeStack(
			t,
			dir,
			"1.2",
			axial,
			line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 2, 4, 6, 0, 2, 4, 6),
			func(n int, f []field) []field {
				text, vr := c.values[n/4], c.tag.VR()
				x, _ := strconv.ParseFloat(text, 64)
				switch vr {
				case "FD":
					return set(f, c.tag, vr, binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
				case "FL":
					return set(f, c.tag, vr, binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))))
				}
				return set(f, c.tag, vr, text)
			},
		)
		series, _, err := Scan(dir)
		if err != nil || len(series) != 2 {
			t.Errorf("%s: %d series, %v", c.tag, len(series), err)
			continue
		}
		for n, s := range series {
			if v, err := Read(s); err != nil || v.Shape[2] != 4 || s.Phase != c.phases[n] {
				t.Errorf("%s: part %d of phase %q, want %q: %v", c.tag, s.Part, s.Phase, c.phases[n], err)
			}
		}
	}
}

// A number of a wrong length is none: the images are read all the same.
func TestNumbersOfWrongLength(t *testing.T) {
	dir := t.TempDir()
	writeStack(
		t,
		dir,
		"1.2",
		axial,
		line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 2, 4),
		func(_ int, f []field) []field {
			return set(set(f, tag.NominalPercentageOfRespiratoryPhase, "FL", "50"), tag.DiffusionBValue, "FD", "1000")
		},
	)
	if s := scanOne(t, dir); s.Err != nil || s.Phase != "" {
		t.Errorf("%v, phase %q", s.Err, s.Phase)
	}
}

// Phases of breathing of one enhanced image, frame by frame.
func TestPhasesOfFrames(t *testing.T) {
	var pixels []byte
	var frames [][]field
	for n := range 8 {
		position := stack.Vector{5, 6, float64(n / 2 * 3)}
		pixels = append(pixels, rampPixels(position, axial, binary.LittleEndian)...)
		phase := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(n%2*50)))
		frames = append(frames, []field{
			{
				tag.RespiratorySynchronizationSequence,
				"SQ",
				[][]field{{{tag.NominalPercentageOfRespiratoryPhase, "FL", phase}}},
			},
			{
				tag.PlanePositionSequence,
				"SQ",
				[][]field{{{tag.ImagePositionPatient, "DS", someNumbers(position[:]...)}}},
			},
			{
				tag.PixelValueTransformationSequence,
				"SQ",
				[][]field{{{tag.RescaleIntercept, "DS", fmt.Sprint(n % 2 * 1000)}, {tag.RescaleSlope, "DS", "1"}}},
			},
		})
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows, pixels)
	f = append(
		set(f, tag.ImagePositionPatient, "", nil),
		field{tag.NumberOfFrames, "IS", "8"},
		field{tag.PerFrameFunctionalGroupsSequence, "SQ", frames},
	)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "enhanced"),
		part10("1.2.840.10008.1.2.1", encode(f, binary.LittleEndian, false)), 0o644); err != nil {
		t.Fatal(err)
	}
	series, _, err := Scan(dir)
	if err != nil || len(series) != 2 || series[0].Phase != "respiratory 0 %" || series[1].Phase != "respiratory 50 %" {
		t.Fatalf("%v, %v", series, err)
	}
	s, _, err := Choose(series, "phase~50 %")
	if err != nil || s != series[1] {
		t.Errorf("%v, %v", s, err)
	}
}
