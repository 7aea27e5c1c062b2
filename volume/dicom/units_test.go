package dicom

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// units is a RealWorldValueMappingSequence with the codes of units.
func units(codes ...string) field {
	var items [][]field
	for _, code := range codes {
		items = append(
			items,
			[]field{{tag.MeasurementUnitsCodeSequence, "SQ", [][]field{{{tag.CodeValue, "SH", code}}}}},
		)
	}
	return field{tag.RealWorldValueMappingSequence, "SQ", items}
}

// enhanced is the data set of an image of four frames with a group of elements that all share, or
// that each has.
func enhanced(place tag.Tag, group field) []field {
	var pixels []byte
	frames, shared := [][]field{}, []field{}
	for n := range 4 {
		position := stack.Vector{5, 6, float64(2 * n)}
		pixels = append(pixels, rampPixels(position, axial, binary.LittleEndian)...)
		frame := []field{
			{
				tag.PlanePositionSequence,
				"SQ",
				[][]field{{{tag.ImagePositionPatient, "DS", someNumbers(position[:]...)}}},
			},
		}
		if place == tag.PerFrameFunctionalGroupsSequence {
			frame = append(frame, group)
		} else {
			shared = []field{group}
		}
		frames = append(frames, frame)
	}
	f := sliceFields("1.2", 1, stack.Vector{}, axial, stackColumns, stackRows, pixels)
	f = set(f, tag.SOPClassUID, "UI", "1.2.840.10008.5.1.4.1.1.2.1")
	return append(
		set(f, tag.ImagePositionPatient, "", nil),
		field{tag.NumberOfFrames, "IS", "4"},
		field{
			tag.PerFrameFunctionalGroupsSequence,
			"SQ",
			frames,
		},
		field{tag.SharedFunctionalGroupsSequence, "SQ", [][]field{shared}},
	)
}

// The defined terms of RescaleType are those of PS3.3 C.11.1.1.2, those of ImageType those of PS3.3
// C.8.2.1.1.1, those of Units of PS3.3 C.8.9.1.1.3.
func TestUnits(t *testing.T) {
	const original = "ORIGINAL\\PRIMARY\\AXIAL"
	for _, c := range []struct {
		modality, imageType, rescale, units string
		codes                               []string
		unit                                string
		inHU                                bool
		doubt                               string
	}{
		{"CT", original, "HU", "", nil, "HU", true, ""},
		{"CT", original, "", "", nil, "", true, ""},
		{"CT", original, "US", "", nil, "", true, ""},
		{"CT", original + "\\CT_SOM5 SPI", "", "", []string{"[hnsf'U]"}, "HU", true, ""},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\VMI", "HU", "", nil, "HU", true, ""},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\MAT_REMOVED", "HU", "", nil, "HU", true, ""},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\IODINE_REMOVED", "", "", nil, "", true, ""},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\EFF_ATOMIC_NUM", "Z_EFF", "", nil, "effective atomic number", false,
			"its values are no Hounsfield units, but effective atomic number, by its " +
				"RescaleType (Z_EFF) and ImageType (EFF_ATOMIC_NUM)"},
		{"CT", original, "Z_EFF", "", nil, "effective atomic number", false,
			"its values are no Hounsfield units, but effective atomic number, by its RescaleType (Z_EFF)"},
		{"CT", original, "ED", "", nil, "electron density (10^23/ml)", false, "RescaleType (ED)"},
		{"CT", original, "EDW", "", nil, "electron density (of water's)", false, "RescaleType (EDW)"},
		{"CT", original, "MGML", "", nil, "mg/ml", false, "RescaleType (MGML)"},
		{"CT", original, "HU_MOD", "", nil, "modified HU", false, "RescaleType (HU_MOD)"},
		{"CT", original, "PCT", "", nil, "%", false, "RescaleType (PCT)"},
		{"CT", original, "OD", "", nil, "optical density", false, "RescaleType (OD)"},
		{"CT", original, "100ug/cc", "", nil, "100ug/cc", false, "RescaleType (100ug/cc)"},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\ELECTRON_DENSITY", "", "", nil, "a map of electron density", false,
			"ImageType (ELECTRON_DENSITY)"},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\IODINE", "HU", "", nil, "a map of iodine", false, "ImageType (IODINE)"},
		{"CT", "DERIVED\\PRIMARY\\AXIAL\\MAT_SPECIFIC", "", "", nil, "a map of one material", false,
			"ImageType (MAT_SPECIFIC)"},
		{"CT", original, "", "", []string{"mg/mL"}, "mg/mL", false, "RealWorldValueMappingSequence (mg/mL)"},
		{"CT", original, "HU", "", []string{"mg/mL"}, "HU", true, ""},
		{"PT", original, "", "BQML", nil, "Bq/ml", false, "a PET in Bq/ml, no CT"},
		{"PT", original, "", "GML", nil, "g/ml", false, "a PET in g/ml, no CT"},
		{"PT", original, "", "", nil, "", false, "a PET, no CT"},
		{"PT", original, "HU", "", nil, "", false, "a PET, no CT"},
		{"NM", original, "", "", nil, "", false, "nuclear medicine, no CT"},
		{"MR", original, "normalized", "", nil, "normalized", false, ""},
		{"MR", "DERIVED\\PRIMARY\\DIFFUSION\\ADC", "US", "", []string{"um2/s"}, "um2/s", false, ""},
	} {
		dir := t.TempDir()
		writeStack(
			t,
			dir,
			"1.2",
			axial,
			line(stack.Vector{}, stack.Vector{0, 0, 1}, 0, 1, 2),
			func(_ int, f []field) []field {
				f = set(set(f, tag.Modality, "CS", c.modality), tag.ImageType, "CS", c.imageType)
				if c.rescale != "" {
					f = set(f, tag.RescaleType, "LO", c.rescale)
				}
				if c.units != "" {
					f = set(f, tag.Units, "CS", c.units)
				}
				if c.codes != nil {
					f = set(f, tag.RealWorldValueMappingSequence, "SQ", units(c.codes...).value)
				}
				return f
			},
		)
		s := scanOne(t, dir)
		if s.Unit != c.unit || s.InHU() != c.inHU || s.RescaleType != c.rescale {
			t.Errorf("%+v: unit %q, in HU %v, RescaleType %q", c, s.Unit, s.InHU(), s.RescaleType)
		}
		var notes []string
		if _, err := ReadWith(s, Options{Note: func(n string) { notes = append(notes, n) }}); err != nil {
			t.Fatal(err)
		}
		if (len(notes) > 0) != (c.doubt != "") || !strings.Contains(strings.Join(notes, "|"), c.doubt) ||
			c.doubt != "" && !strings.Contains(strings.Join(s.Problems, "|"), c.doubt) {
			t.Errorf("%+v: notes %q, problems %q", c, notes, s.Problems)
		}
	}
}

// An enhanced image says it in its functional groups, shared or of each frame.
func TestUnitsOfFrames(t *testing.T) {
	for n, group := range []field{
		{tag.PixelValueTransformationSequence, "SQ",
			[][]field{{{tag.RescaleIntercept, "DS", "0"}, {tag.RescaleSlope, "DS", "1"},
				{tag.RescaleType, "LO", "Z_EFF"}}}},
		units("{Zeff}"),
		{tag.CTImageFrameTypeSequence, "SQ",
			[][]field{{{tag.FrameType, "CS", "DERIVED\\PRIMARY\\VOLUME\\EFF_ATOMIC_NUM"}}}},
	} {
		for _, place := range []tag.Tag{tag.SharedFunctionalGroupsSequence, tag.PerFrameFunctionalGroupsSequence} {
			path := filepath.Join(t.TempDir(), "enhanced")
			if err := os.WriteFile(path,
				part10("1.2.840.10008.1.2.1", encode(enhanced(place, group), binary.LittleEndian, false)),
				0o644); err != nil {
				t.Fatal(err)
			}
			s := scanOne(t, path)
			if s.InHU() || s.Unit == "" || !strings.Contains(fmt.Sprint(s.Problems), "no Hounsfield units") {
				t.Errorf("%d in %s: unit %q, %q", n, place, s.Unit, s.Problems)
			}
		}
	}
}

// What is no scan in HU is not chosen before one that is, whatever its size and plane.
func TestChooseInHU(t *testing.T) {
	root := t.TempDir()
	write := func(name string, slices int, o [6]float64, normal stack.Vector, tags map[tag.Tag]string) {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var at []float64
		for n := range slices {
			at = append(at, float64(n))
		}
		writeStack(
			t,
			dir,
			"1.2."+fmt.Sprint(len(name)),
			o,
			line(stack.Vector{}, normal, at...),
			func(_ int, f []field) []field {
				f = set(f, tag.SeriesNumber, "IS", fmt.Sprint(len(name)))
				for key, value := range tags {
					f = set(f, key, "LO", value)
				}
				return f
			},
		)
	}
	chosen := func() (string, string) {
		series, _, err := Scan(root)
		if err != nil {
			t.Fatal(err)
		}
		s, why, err := Choose(series, "")
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(filepath.Dir(s.Files[0])), why
	}
	write("map", 9, axial, stack.Vector{0, 0, 1}, map[tag.Tag]string{tag.RescaleType: "MGML"})
	if name, _ := chosen(); name != "map" {
		t.Errorf("takes %s", name)
	}
	write("coronal", 5, [6]float64{1, 0, 0, 0, 0, -1}, stack.Vector{0, 1, 0}, nil)
	if name, why := chosen(); name != "coronal" || !strings.Contains(why, "the only scan in HU of 2 series") {
		t.Errorf("takes %s: %s", name, why)
	}
	write(
		"axial",
		4,
		axial,
		stack.Vector{0, 0, 1},
		map[tag.Tag]string{tag.ImageType: "DERIVED\\PRIMARY\\AXIAL\\VMI", tag.RescaleType: "HU"},
	)
	if name, _ := chosen(); name != "axial" {
		t.Errorf("takes %s", name)
	}
}
