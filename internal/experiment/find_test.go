package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/miniature"
)

// A plan's sources are found wherever they lie below a folder, by what they hold.
func TestSourcesAreFound(t *testing.T) {
	root := t.TempDir()
	if err := miniature.NIH(filepath.Join(root, "fetched", "manifest-1"), []int{1, 21}); err != nil {
		t.Fatal(err)
	}
	if err := miniature.MSD(filepath.Join(root, "decathlon"), 2, 1); err != nil {
		t.Fatal(err)
	}
	p := DefaultPlan()
	p.Data = "nih"
	p.Sources = []Source{{Data: "nih", What: "NIH", Layout: "nih", Cases: 2}}
	p.Inits[1].Data = "msd"
	p.Sources = append(p.Sources, Source{Data: "msd", What: "MSD", Layout: "msd", Named: "Task07", Cases: 281},
		Source{Data: "other", What: "liver", Layout: "msd", Named: "Task03", Cases: 131})
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), `data is "other"`) {
		t.Errorf("a source that nothing uses: %v", err)
	}
	p.Inits = append(p.Inits, Initialisation{Name: "liver", Data: "other", Pretrain: config.NewSection("{}\n")})
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	p.Paths().Below(root, p.Sources)
	found, err := Find(t.Context(), root, p.DataSets())
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []Found{
		{State: SourceRaw, There: 2, Source: Source{Data: filepath.Join(root, "nih")},
			Raw:    filepath.Join(root, "fetched", "manifest-1", "Pancreas-CT"),
			Labels: filepath.Join(root, "fetched", "manifest-1", "TCIA_pancreas_labels-02-05-2017")},
		{State: SourceRaw, There: 2, Source: Source{Data: filepath.Join(root, "msd")},
			Raw: filepath.Join(root, "decathlon", "Task07_Pancreas"), Note: "2 cases, published are 281"},
		{State: SourceMissing, Source: Source{Data: filepath.Join(root, "other")}},
	} {
		got := found[n]
		if got.State != want.State || got.There != want.There || got.Data != want.Data || got.Raw != want.Raw ||
			got.Labels != want.Labels || got.Note != want.Note {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if _, err := Find(t.Context(), filepath.Join(root, "nowhere"), p.DataSets()); err == nil {
		t.Error("a folder that is not there")
	}
	if err := os.MkdirAll(p.Sources[0].Data, 0o777); err != nil {
		t.Fatal(err)
	}
	if found, err = Find(t.Context(), root, p.DataSets()); err != nil || found[0].State != SourceRaw {
		t.Errorf("beside an empty folder: %+v, %v", found[0], err)
	}
}

// A plan of scans has no sources of photographs, and one of photographs none of scans.
func TestSourcesAreOfOneKind(t *testing.T) {
	data := "data"
	paths := Paths{{What: "data", At: &data}}
	for _, c := range []struct {
		photographs bool
		source      Source
		want        string
	}{
		{false, Source{Layout: "msd", Cases: 1}, ""},
		{true, Source{Holds: []string{"train"}, Photos: 1}, ""},
		{false, Source{}, "cases is 0"},
		{true, Source{Photos: 1}, "holds is empty"},
		{false, Source{Cases: 1, Holds: []string{"train"}}, "scans have a layout and cases"},
		{true, Source{Cases: 1, Holds: []string{"train"}}, "photographs have holds and photos"},
	} {
		c.source.Data = data
		err := paths.CheckSources([]Source{c.source}, c.photographs)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.source, err, c.want)
		}
	}
}

// The arithmetic of a rehearsal is that of its trainings, and needs no data.
func TestRehearsal(t *testing.T) {
	p := DefaultPlan()
	p.Data, p.RunFolds, p.Fractions, p.Seeds = "nowhere", []int{1, 3}, []float64{0.5, 1}, []uint64{1, 2, 3}
	p.Finetune.Network = voxsaw.Network{Preset: "paper", Channels: 2, Levels: 1, Norm: "instance"}
	p.Finetune.Crop, p.Finetune.Train.Steps = [3]int{16, 16, 16}, 7
	pretrain := "{network: {channels: 2, levels: 1, norm: instance}, crop: [24, 24, 24], grid: " +
		"[2, 2, 2], features: 8, train: {steps: 5}}"
	p.Inits = []Initialisation{{Name: Scratch}, {Name: "own", Pretrain: config.NewSection(pretrain)},
		{Name: "other", Data: "elsewhere", Pretrain: config.NewSection(pretrain)},
		{Name: "mean teacher", Finetune: config.NewSection("{unlabelled: true, train: {average: 0.99}}")}}
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	r, err := Rehearse(t.Context(), &p, dev, false)
	if err != nil {
		t.Fatal(err)
	}
	if r.Works[OfFinetuning].Trainings != 48 || r.Works[OfPretraining].Trainings != 2+1 || !(r.Rate > 1e6) ||
		!(r.Time() > 0) {
		t.Errorf("%+v", r)
	}
	p.Finetune.Train.Steps, p.Seeds = 14, []uint64{1}
	half, err := Rehearse(t.Context(), &p, dev, false)
	if err != nil {
		t.Fatal(err)
	}
	if half.Works[OfFinetuning].Trainings != 16 || 3*half.Works[OfFinetuning].FLOPs != 2*r.Works[OfFinetuning].FLOPs ||
		half.Works[OfPretraining] != r.Works[OfPretraining] {
		t.Errorf("%+v, of other steps %+v", r, half)
	}
	// a study that was begun with settings that do nothing goes on
	p.Inits, p.Finetune.Network.Dropout = p.Inits[:1], 0.3
	if err := p.Idle(); err == nil {
		t.Error("all settings do something")
	}
	if r, err := Rehearse(t.Context(), &p, dev, false); err != nil || !(r.Rate > 1e6) {
		t.Errorf("of a setting that does nothing: %+v, %v", r, err)
	}
}
