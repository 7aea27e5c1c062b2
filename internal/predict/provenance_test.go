package predict

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

type nobody struct{}

func (nobody) Window(string, int, int) {}
func (nobody) Comparing(string)        {}
func (nobody) Note(string)             {}
func (nobody) Passed()                 {}
func (nobody) Written(string)          {}
func (nobody) Failed(error)            {}
func (nobody) Elsewhere([]string)      {}

// Which label maps that are there already are taken for those of a scan.
func TestLabelMapsOfOtherScansAreRefused(t *testing.T) {
	dir := t.TempDir()
	scan, target := filepath.Join(dir, "scan.nii"), filepath.Join(dir, "labels.nii")
	g := volume.Grid{Shape: [3]int{2, 2, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	write := func(text string) {
		t.Helper()
		l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
		if err := nifti.WriteLabelsWith(target, l, nil, []nifti.Extension{provenance.Extension(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nifti.Write(scan, &volume.Volume{Grid: g, Int16: []int16{1, 2, 3, 4, 5, 6, 7, 8}}); err != nil {
		t.Fatal(err)
	}
	own := origin{Program: provenance.Predict, Version: "2"}
	check := func() error {
		b := &Batch{scans: []dataset.Case{{ID: "scan", Image: scan}}, targets: []string{target},
			digests: map[int]string{}}
		return b.checkOther(0, own, nobody{})
	}
	if err := check(); err != nil {
		t.Errorf("nothing is there: %v", err)
	}
	b := &Batch{scans: []dataset.Case{{ID: "scan", Image: scan}}, digests: map[int]string{}}
	made := own
	var err error
	if made.Digest, err = b.digest(0); err != nil || len(made.Digest) != 64 {
		t.Fatal(made.Digest, err)
	}
	text, err := made.text(mostParameters)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"of this scan", text, ""},
		{"of a scan that it does not name", strings.Replace(text, "scan_sha256", "other_key", 1),
			"does not say of which scan it is"},
		{"of another scan", strings.Replace(text, made.Digest[:8], "00000000", 1), "was made of another scan than " +
			scan},
		{"of another program", `{"program": "somebody's"}`, "does not say what made it"},
	} {
		write(c.text)
		switch err := check(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	// The scan that lies there now is another than the one that was segmented.
	write(text)
	data, err := os.ReadFile(scan)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	if err := os.WriteFile(scan, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "was made of another scan") {
		t.Errorf("another scan under the same name: %v", err)
	}
}

// However much there is to say, what a DICOM object says is JSON and fits, so that it is known as a
// prediction.
func TestOriginsFit(t *testing.T) {
	o := origin{Program: provenance.Predict, Version: "2", Digest: strings.Repeat("d", 64),
		Learnt: provenance.WithLabels}
	o.Model = strings.Repeat("m", 64)
	for n := range 600 {
		o.LargestOf = append(o.LargestOf, fmt.Sprint(n))
		o.Checkpoints = append(o.Checkpoints, segment.Trained{Weights: "0123456789abcdef", Step: n})
		o.Scan.Series += "words "
	}
	for _, most := range []int{mostParameters, 5000, 1 << 20} {
		text, err := o.text(most)
		var read origin
		if err != nil || len(text) > most || json.Unmarshal([]byte(text), &read) != nil ||
			!provenance.Is([]byte(text)) {
			t.Errorf("%d characters of at most %d: %.80s, %v", len(text), most, text, err)
		}
		if read.Digest != o.Digest || read.Model != o.Model || read.Learnt != o.Learnt {
			t.Errorf("at most %d: %+v", most, read)
		}
	}
}
