package nnplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

const (
	golden = "../../testdata/nnplan" // made by testdata/nnplan.py
	stats  = "foreground_intensity_properties_per_channel"
)

// differ calls wrong for every value that two texts of JSON do not share.
func differ(path string, got, want any, wrong func(path string, got, want any)) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		keys := slices.Collect(maps.Keys(w))
		for key := range g {
			if _, there := w[key]; !there {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			differ(path+"/"+key, g[key], w[key], wrong)
		}
		return
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			for n := range w {
				differ(fmt.Sprintf("%s/%d", path, n), g[n], w[n], wrong)
			}
			return
		}
	case float64:
		if g, ok := got.(float64); ok && math.Abs(g-w) <= 1e-7*math.Abs(w) {
			return
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		wrong(path, got, want)
	}
}

// Every value of plans.json is nnU-Net's, but for statistics, of which it draws voxels at random.
func TestPlans(t *testing.T) {
	told := 0
	f, err := Extract(t.Context(), filepath.Join(golden, "Dataset007_Tiny"), dataset.DefaultReadOptions(),
		func(int, int) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	if told != 4 {
		t.Errorf("told of %d cases", told)
	}
	for _, of := range []struct {
		encoder   planning.Encoder
		gigabytes float64
		file      string
	}{
		{planning.Plain, 0, "nnUNetPlans"}, {planning.Plain, 0.01, "nnUNetPlans_0.01GB"},
		{planning.Residual, 0, "nnUNetResEncUNetMPlans"}, {planning.ResidualL, 0, "nnUNetResEncUNetLPlans"},
		{planning.ResidualXL, 0, "nnUNetResEncUNetXLPlans"},
	} {
		text, _, err := f.Plans(of.encoder, of.gigabytes)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join(golden, of.file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		values := 0
		differ("", got, want, func(path string, got, want any) {
			if !strings.HasPrefix(path, "/"+stats) {
				t.Errorf("%s%s is %v, nnU-Net has %v", of.file, path, got, want)
				return
			}
			g, okG := got.(float64)
			w, okW := want.(float64)
			// a hundredth of a spread of more than 100; values lie one apart
			if !okG || !okW || math.Abs(g-w) > 1 {
				t.Errorf("%s%s is %v, nnU-Net has %v", of.file, path, got, want)
			}
			values++
		})
		if len(want) < 10 || values == 0 {
			t.Errorf("%s: %d keys and %d statistics were compared", of.file, len(want), values)
		}
	}
}

// numTraining is what nnU-Net reckons with, however many cases lie there.
func TestNumTraining(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "Dataset007_Tiny")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(golden, "Dataset007_Tiny"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "dataset.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`"numTraining": *4`).ReplaceAll(text, []byte(`"numTraining": 4000`))
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Extract(t.Context(), folder, dataset.DefaultReadOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, p, err := f.Plans(planning.Plain, 8)
	if err != nil {
		t.Fatal(err)
	}
	f.Spacings, f.Shapes = slices.Repeat(f.Spacings, 1000), slices.Repeat(f.Shapes, 1000)
	_, all, err := f.Plans(planning.Plain, 8)
	f.Training = 4
	_, few, failed := f.Plans(planning.Plain, 8)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if p.Full.Batch != all.Full.Batch || p.Full.Batch == few.Full.Batch {
		t.Errorf("a batch of %d; of 4000 scans %d, of 4 %d", p.Full.Batch, all.Full.Batch, few.Full.Batch)
	}
}

// A reader that turns the axes to RAS gives arrays of other axes than the file's: here of a
// sagittal scan, whose slices lie 4 mm apart from left to right.
func TestTurningReader(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "Dataset009_Sagittal")
	for _, name := range []string{"imagesTr", "labelsTr"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g := volume.Grid{Shape: [3]int{20, 22, 6},
		Affine: volume.Affine{{0, 0, 4, 0}, {0.6, 0, 0, 0}, {0, -0.7, 0, 0}, {0, 0, 0, 1}}}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for i := range v.Int16 {
		v.Int16[i], l.Labels[i] = int16(1+i%100), uint16(i%2)
	}
	if err := errors.Join(nifti.Write(filepath.Join(folder, "imagesTr", "a_0000.nii"), v),
		nifti.WriteLabels(filepath.Join(folder, "labelsTr", "a.nii"), l)); err != nil {
		t.Fatal(err)
	}
	for reader, want := range map[string]struct {
		spacing [3]float64
		shape   [3]int
	}{
		"NibabelIO":             {[3]float64{0.6, 0.7, 4}, [3]int{20, 22, 6}},
		"NibabelIOWithReorient": {[3]float64{4, 0.6, 0.7}, [3]int{6, 20, 22}},
		"MyReader":              {},
	} {
		text := fmt.Sprintf(`{"channel_names": {"0": "MR"}, "labels": {"background": 0, "a": 1}, "numTraining": 1, `+
			`"file_ending": ".nii", "overwrite_image_reader_writer": %q}`, reader)
		if err := os.WriteFile(filepath.Join(folder, "dataset.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Extract(t.Context(), folder, dataset.DefaultReadOptions(), nil)
		if reader == "MyReader" {
			if err == nil || !strings.Contains(err.Error(), "reader_writer MyReader is not known here") {
				t.Error(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for a, spacing := range f.Spacings[0] {
			if math.Abs(spacing-want.spacing[a]) > 1e-6 || f.Shapes[0] != want.shape {
				t.Errorf("%s: %v of %v, want %v", reader, f.Shapes, f.Spacings, want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":   "is no folder of nnUNet_raw",
		"{}": `file_ending "" is of files that are not read here`,
		`{"file_ending": ".nii.gz", "channel_names": {"1": "CT"}}`: "channel_names has no channel 0",
		`{"file_ending": ".nii.gz", "channel_names": {"0": "CT"}}`: "does not say channel_names, two labels or more",
	} {
		path := filepath.Join(dir, "dataset.json")
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		} else {
			os.Remove(path)
		}
		if _, err := Extract(t.Context(), dir, dataset.DefaultReadOptions(), nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
