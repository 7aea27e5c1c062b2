package segment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A run goes on only with the settings that it was started with. What versions without modalities
// wrote of a CT is what is written now, so that their runs and studies go on.
func TestSettingsOfEarlierVersionsStay(t *testing.T) {
	c := DefaultConfig()
	c.Preparation = volume.DefaultPreparation().ForModality(volume.ModalityCT)
	text, err := config.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\npreparation:")
	_, rest, _ = strings.Cut(rest, "\n")
	var keys []string
	for line := range strings.Lines(rest) {
		key, _, found := strings.Cut(line, ":")
		if !strings.HasPrefix(line, "  ") || !found {
			break
		}
		keys = append(keys, strings.TrimSpace(key))
	}
	if got := strings.Join(keys, " "); got != "crop axcodes spacing window interpolation relabel" {
		t.Errorf("a preparation of CT has the keys %s", got)
	}
}

// Networks are averaged where scans are prepared alike for them, and what differs is said in the
// words of the settings.
func TestPreparationsThatAgree(t *testing.T) {
	a, b := DefaultConfig(), DefaultConfig()
	a.Preparation = volume.DefaultPreparation()
	b.Preparation = volume.DefaultPreparation().ForModality(volume.ModalityMR)
	b.Preparation.Spacing = [3]float64{1, 1, 2}
	want := "prepared in different ways: spacing each scan's own and 1x1x2 mm; modality " +
		"CT and MR; intensity ct-window and zscore"
	if err := a.agrees(b); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	b.Preparation = a.Preparation
	if err := a.agrees(b); err != nil {
		t.Error(err)
	}
}

// A new run is refused with settings that do nothing, however it is asked for; one that was begun
// with them goes on, and says so.
func TestSettingsThatDoNothing(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"dropout is 0.3":        func(c *Config) { c.Network.Dropout = 0.3 },
		"unlabelled_weight":     func(c *Config) { c.UnlabelledWeight = 2 },
		"unlabelled_ramp":       func(c *Config) { c.UnlabelledRamp = 5 },
		"unlabelled_confidence": func(c *Config) { c.UnlabelledConfidence = 0.5 },
	} {
		store, dev, c := phantoms(t, 2, [3]int{20, 20, 20}), testDevice(t), tiny()
		change(&c)
		c.Train.Steps = 1
		data := sample.Data{Store: store, Train: []string{"case00", "case01"}}
		o := voxsaw.RunOptions{Folder: filepath.Join(t.TempDir(), "run"), Observer: &observer{}}
		for _, o.Mode = range []voxsaw.Mode{voxsaw.ModeNew, voxsaw.ModeForce, voxsaw.ModeResume} {
			_, _, err := Finetune(t.Context(), dev, c, data, "", o)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("mode %v: error %v, want %s", o.Mode, err, want)
			}
		}
		o.Idle = true // as an earlier version, and runs of a study, begin
		if _, _, err := Finetune(t.Context(), dev, c, data, "", o); err != nil {
			t.Error(err)
		}
		told := &observer{}
		o.Idle, o.Observer, c.Train.Steps = false, told, 2
		if _, _, err := Finetune(t.Context(), dev, c, data, "", o); err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(told.notes, func(note string) bool {
			return strings.HasPrefix(note, "WARNING: ") && strings.Contains(note, want)
		}) {
			t.Errorf("notes %q, want %s", told.notes, want)
		}
	}
}

// Labels that are called after numbers are those of the numbers once the program has written them,
// however often settings are resolved; what a person may have meant as either is refused.
func TestLabelsCalledAfterNumbers(t *testing.T) {
	scan, labels, err := phantom.New(1, phantom.Options{Shape: [3]int{16, 16, 16}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range labels.Labels {
		labels.Labels[n] = uint16(1 + n%3)
	}
	labels.Names = map[uint16]string{1: "2", 2: "3", 3: "4"} // grades, as a data set numbers them
	dir := filepath.Join(t.TempDir(), "prepared")
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(prepared.Input{ID: "a", Image: scan, Labels: labels}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, of := range []struct {
		given, want []string
		refused     string
	}{
		{nil, []string{"1", "2", "3"}, ""},
		{[]string{"1"}, []string{"1"}, ""},
		{[]string{"4"}, []string{"3"}, ""},
		{[]string{"4", "1"}, []string{"3", "1"}, ""},
		{[]string{"2"}, nil, `label "2" may be label 1 of the data, which is called so, or label 2`},
		{[]string{"1+3"}, nil, `label "3" may be label 2 of the data`},
	} {
		c := tiny()
		c.Labels = of.given
		for range 3 {
			if c, err = c.Resolve(store); of.refused != "" {
				if err == nil || !strings.Contains(err.Error(), of.refused) {
					t.Errorf("labels %v: error %v", of.given, err)
				}
				break
			}
			if err != nil || !slices.Equal(c.Labels, of.want) {
				t.Errorf("labels %v: %v, %v", of.given, c.Labels, err)
				break
			}
		}
	}
}

// Settings that do nothing beside others are told where they have a value by default, or where it
// is the run that has no use for them; those that count are not.
func TestSettingsWithoutUseAreTold(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"", func(*Config) {}},
		{"", func(c *Config) { c.Augment.Spatial = 0 }},
		{"augment: rotation 30, scale 0.1, elastic 2 does nothing",
			func(c *Config) { c.Augment.Spatial, c.Augment.Rotation = 0, 30 }},
		{"", func(c *Config) { c.Augment.Rotation = 30 }},
		{"augment: spatial 0.33 does nothing", func(c *Config) {
			c.Augment.Rotation, c.Augment.Scale, c.Augment.Elastic = 0, 0, 0
		}},
		{"", func(c *Config) { c.Augment = Augmentation{} }},
		{"labelled_last 3 does nothing", func(c *Config) { c.LabelledLast = 3 }},
		{"", func(c *Config) { c.LabelledLast, c.Targets = 3, "teachers" }},
		{"init_partial does nothing", func(c *Config) { c.InitPartial = true }},
	} {
		config := DefaultConfig()
		c.change(&config)
		if notes := strings.Join(config.notes(true), "; "); !strings.Contains(notes, c.want) ||
			(notes == "") != (c.want == "") {
			t.Errorf("notes %q, want %q", notes, c.want)
		}
	}
}
