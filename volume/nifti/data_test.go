package nifti

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/expect"
)

// The exact errors of files that cannot be read, after the path.
var fileErrors = map[string]string{
	"nibabel/analyze.hdr": "is in the Analyze 7.5 format, the forerunner of NIfTI, which does " +
		"not say how the patient lies: convert it",
	"nibabel/nifti1.hdr":            "is the header of a pair, but its image",
	"nibabel/nifti2.hdr":            "is the header of a pair, but its image",
	"nibabel/example4d.nii.gz":      "holds 2 volumes (shape 128x96x24x2): choose one with --volume",
	"nibabel/example_nifti2.nii.gz": "holds 2 volumes (shape 32x20x12x2): choose one with --volume",
	"nibabel/functional.nii":        "holds 20 volumes (shape 17x21x3x20): choose one with --volume",
}

// Every file of the data folder is read as nibabel reads it, or refused with the error above.
func TestFilesAgreeWithNibabel(t *testing.T) {
	data := expect.Data(t)
	checked := map[string]bool{}
	for _, folder := range []string{"nifti", "totalsegmentator"} {
		for name, e := range expect.Read[map[string]expect.Entry](t, folder+"/expected.json") {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(data, folder, name)
				checked[path] = true
				v, err := Read(path)
				if want := fileErrors[name]; want != "" {
					if err == nil || !strings.HasPrefix(err.Error(), path+": "+want) {
						t.Fatalf("got %v, want %s", err, want)
					}
					if e.Error != "" {
						return
					}
					// the probes are those of the first volume
					v, err = ReadWith(path, Options{Volume: 1})
				} else if e.Error != "" {
					t.Fatalf("nibabel says %s: say here what we say", e.Error)
				}
				if err != nil {
					t.Fatal(err)
				}
				e.Check(t, v, 0)
				h, err := ReadHeader(path)
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.TrimLeft(strings.NewReplacer("i2", "int16", "f4", "float32").Replace(e.Dtype),
					"<>"); h.Datatype != want && h.Datatype != e.Dtype {
					t.Errorf("data type %s, want %s", h.Datatype, e.Dtype)
				}
				if !reflect.DeepEqual(h.Dims, e.Shape) {
					t.Errorf("dims %v, want %v", h.Dims, e.Shape)
				}
			})
		}
		filepath.WalkDir(filepath.Join(data, folder), func(path string, d os.DirEntry, err error) error {
			known := strings.HasSuffix(path, ".nii") || strings.HasSuffix(path, ".nii.gz") ||
				strings.HasSuffix(path, ".hdr")
			if err == nil && known && !checked[path] {
				t.Errorf("%s is in no table", path)
			}
			return err
		})
	}
	if len(checked) < 60 {
		t.Errorf("only %d files were checked", len(checked))
	}
}

func TestOrientationsAreOneArray(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(expect.Data(t), "nifti/orientations/*.nii.gz"))
	if len(files) != 48 {
		t.Fatalf("%d files, want 48", len(files))
	}
	var first *volume.Volume
	for _, path := range files {
		v, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".nii.gz"); v.Axcodes() != name {
			t.Errorf("%s has the axes %s", name, v.Axcodes())
		}
		if v, err = v.Orient("RAS"); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = v
		}
		if !v.Same(first.Grid, 1e-4) || !slices.Equal(v.Float32, first.Float32) {
			t.Errorf("%s is another array", path)
		}
	}
}

func TestEitherHalfOfAPair(t *testing.T) {
	data := expect.Data(t)
	a, err := Read(filepath.Join(data, "nifti/pairs/ras.hdr"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(filepath.Join(data, "nifti/pairs/ras.img"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Error("header and image give different volumes")
	}
}

func TestReadLabelsOfData(t *testing.T) {
	data := expect.Data(t)
	l, err := ReadLabels(filepath.Join(data, "totalsegmentator/ct_seg.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.Counts()); n != 62 {
		t.Errorf("%d labels, want 61 and background, as numpy counts them", n)
	}
	path := filepath.Join(data, "totalsegmentator/ct.nii.gz")
	_, err = ReadLabels(path)
	var format *volume.FormatError
	if !errors.As(err, &format) || !strings.HasPrefix(err.Error(), path+": is not a label map: it holds -") {
		t.Errorf("a CT as labels: %v", err)
	}
}
