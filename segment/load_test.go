package segment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/sample"
)

// wholeNetwork writes a checkpoint of a network, encoder and decoder.
func wholeNetwork(t *testing.T, dev voxsaw.Device, settings voxsaw.Network, about checkpoint.Description) string {
	t.Helper()
	network, err := backbone.Of(settings)
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.From(dev)
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, d.Activations())
	network.Decoder(g, network.Encoder(g, g.Input("image", 1, 1, 16, 16, 16)))
	params := nn.NewParams(d, 77)
	defer params.Close()
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), about.Kind+".safetensors")
	if err := checkpoint.Write(path, about, params); err != nil {
		t.Fatal(err)
	}
	return path
}

// isLast tells the parameters of which a network's outputs are made.
func isLast(name string) bool {
	return strings.HasPrefix(name, "head.") || strings.Contains(name, "seg_layers")
}

// What is loaded is what Load says; the last layer of a pretext task is not, even where its
// outputs are as many as the classes.
func TestLoad(t *testing.T) {
	dev := testDevice(t)
	for _, network := range []voxsaw.Network{
		{Preset: "monai", Channels: 2, Levels: 1}, {Preset: "paper", Channels: 2, Levels: 1, Norm: "instance"},
		{Kind: "resenc", Channels: 2, Levels: 3, Blocks: []int{1, 1, 1, 1}},
		{Channels: 2, Levels: 3, Norm: "instance", DeepSupervision: true},
	} {
		store := phantoms(t, 1, [3]int{20, 18, 16})
		c := tiny()
		c.Network, c.Crop, c.Labels = network, [3]int{16, 16, 16}, []string{"1", "2", "3"}
		c = resolved(t, c, store)
		for _, x := range []struct {
			kind, load string
			classes    int
			wanted     func(name string) bool
			reason     string
		}{
			{checkpoint.Segmentation, "", 4, func(string) bool { return true }, ""},
			{checkpoint.Segmentation, "all", 4, func(string) bool { return true }, ""},
			{checkpoint.Segmentation, "encoder", 4, isEncoder, "load: encoder"},
			{"fusion", "all", 4, func(name string) bool { return !isLast(name) }, "the last layer of another task"},
			{"mae", "", 1, func(name string) bool { return !isLast(name) }, "the last layer of another task"},
			{"mae", "encoder", 1, isEncoder, "load: encoder"},
		} {
			from := c.Network
			from.Classes = x.classes
			c.Load = x.load
			learner, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00"}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			params := learner.bench.Params
			loaded, err := initialise(wholeNetwork(t, dev, from, checkpoint.Description{Kind: x.kind}), c, params)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range params.Names() {
				if x.wanted(name) {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if slices.Sort(loaded.Loaded); !slices.Equal(loaded.Loaded, want) {
				t.Errorf("%s, %s, load %q: loaded %v", network.Kind, x.kind, x.load, loaded)
			}
			if len(loaded.Skipped) != len(params.Names())-len(want) || len(loaded.Missing) > 0 {
				t.Errorf("%s, %s, load %q: %v", network.Kind, x.kind, x.load, loaded)
			}
			for _, s := range loaded.Skipped {
				if !strings.Contains(s.Reason, x.reason) {
					t.Errorf("%s, %s, load %q: %s was left because it is %s", network.Kind, x.kind, x.load, s.Name,
						s.Reason)
				}
			}
		}
	}
	c := tiny()
	c.Load = "decoder"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), `load is "decoder", must be all or encoder`) {
		t.Errorf("error %v", err)
	}
}

// With and without deep supervision a VNet has the same weights but the coarser heads: these are
// named where they are missing or left over, and predictions average both kinds.
func TestDeepSupervisionLoads(t *testing.T) {
	dev, store := testDevice(t), phantoms(t, 1, [3]int{20, 18, 16})
	plain := tiny()
	plain.Network, plain.Crop = voxsaw.Network{Channels: 2, Levels: 3, Norm: "instance"}, [3]int{16, 16, 16}
	deep := plain
	deep.Network.DeepSupervision = true
	plain, deep = resolved(t, plain, store), resolved(t, deep, store)
	heads := []string{"head.1.logits.bias", "head.1.logits.weight"}
	for _, x := range []struct {
		from, to         Config
		missing, skipped []string
	}{{plain, deep, heads, nil}, {deep, plain, nil, heads}} {
		learner, err := compiled(t, dev, x.to, sample.Data{Store: store, Train: []string{"case00"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := initialise(wholeNetwork(t, dev, x.from.Network, describe(t, x.from)), x.to, learner.bench.Params)
		if err != nil {
			t.Fatal(err)
		}
		var skipped []string
		for _, s := range loaded.Skipped {
			skipped = append(skipped, s.Name)
		}
		slices.Sort(skipped)
		slices.Sort(loaded.Missing)
		if !slices.Equal(loaded.Missing, x.missing) || !slices.Equal(skipped, x.skipped) {
			t.Errorf("loaded %v", loaded)
		}
	}
	if err := plain.agrees(deep); err != nil {
		t.Errorf("they cannot vote together: %v", err)
	}
}

// describe is what a checkpoint of a run with these settings says about itself.
func describe(t *testing.T, c Config) checkpoint.Description {
	t.Helper()
	settings, err := config.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return checkpoint.Description{Kind: checkpoint.Segmentation, Settings: string(settings)}
}

// A head whose outputs are other classes than the run's, or the same in another order, stays as it
// was, at every resolution, and all else is loaded.
func TestHeadOfOtherClassesIsLeft(t *testing.T) {
	dev, store := testDevice(t), phantoms(t, 1, [3]int{20, 18, 16})
	for _, network := range []voxsaw.Network{
		{Preset: "monai", Channels: 2, Levels: 1}, {Preset: "paper", Channels: 2, Levels: 1, Norm: "instance"},
		{Kind: "resenc", Channels: 2, Levels: 3, Blocks: []int{1, 1, 1, 1}},
		{Channels: 2, Levels: 3, Norm: "instance", DeepSupervision: true},
	} {
		c := tiny()
		c.Network, c.Crop, c.Labels = network, [3]int{16, 16, 16}, []string{"1", "2", "3"}
		c = resolved(t, c, store)
		from := c
		from.Names = []string{c.Names[0], c.Names[2], c.Names[1]}
		learner, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		params := learner.bench.Params
		before := map[string][]float32{}
		for _, name := range params.Names() {
			if before[name], err = params.Read(name); err != nil {
				t.Fatal(err)
			}
		}
		loaded, err := initialise(wholeNetwork(t, dev, c.Network, describe(t, from)), c, params)
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, name := range params.Names() {
			after, err := params.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			if isLast(name) {
				left++
			}
			if isLast(name) == slices.Contains(loaded.Loaded, name) ||
				isLast(name) && !slices.Equal(before[name], after) {
				t.Errorf("%s, %s: loaded %v", network.Kind, name, loaded.Loaded)
			}
		}
		if left == 0 || len(loaded.Skipped) != left {
			t.Errorf("%s: %d parameters of the head, %v", network.Kind, left, loaded)
		}
		if want := "differ from number 2 on: spleen, liver in the checkpoint, liver, spleen in the " +
			"data"; !strings.Contains(loaded.String(), want) {
			t.Errorf("no %q in %v", want, loaded)
		}

		from.Names = c.Names
		loaded, err = initialise(wholeNetwork(t, dev, c.Network, describe(t, from)), c, params)
		if err != nil || len(loaded.Skipped) > 0 || len(loaded.Missing) > 0 {
			t.Errorf("%s, the same classes: %v, %v", network.Kind, loaded, err)
		}
	}
}

// Of nnU-Net's last layers the rows of classes that the run has, too, are taken over, by name or,
// where there is none, by number; the others stay as they were.
func TestRowsOfNNUNet(t *testing.T) {
	dev, store := testDevice(t), phantoms(t, 1, [3]int{20, 18, 16})
	m, err := nnunet.Open("../testdata/nnunet/thick", nil) // organ is 1, lesion 2
	if err != nil {
		t.Fatal(err)
	}
	file, err := pytorch.OpenWeights(m.First())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for said, x := range map[string]struct {
		names []string // of labels 1 and 2
		rows  []int
	}{
		"the rows of other, which nnU-Net's model does not have (taken over: background, LESION)": {[]string{"LESION",
			"other"}, []int{0, 2, -1}},
		"60 tensors loaded, 2 skipped": {[]string{"lesion", "organ"}, []int{0, 2, 1}},
		"the rows of liver, which nnU-Net's model does not have (taken over: background, label 2)": {[]string{"liver",
			"2"}, []int{0, -1, 2}},
		"the rows of label 1, which nnU-Net's model does not have (taken over: background, organ)": {[]string{"1",
			"organ"}, []int{0, -1, 1}},
		"the last layer of nnU-Net's labels": {[]string{"liver", "spleen"}, []int{-1, -1, -1}},
	} {
		c := tiny()
		c.Network, c.Crop, c.Labels = m.Network.Network(), [3]int{16, 16, 16}, []string{"1", "2"}
		c = resolved(t, c, store)
		c.Names = x.names
		learner, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		params := learner.bench.Params
		before := map[string][]float32{}
		for _, name := range params.Names() {
			if before[name], err = params.Read(name); err != nil {
				t.Fatal(err)
			}
		}
		loaded, err := initialise(m.First(), c, params)
		if err != nil || !strings.Contains(loaded.String(), said) {
			t.Errorf("%v, %v, want %q", loaded, err, said)
		}
		heads := 0
		for _, name := range params.Names() {
			if !strings.Contains(name, "seg_layers") {
				continue
			}
			heads++
			theirs, err := file.ReadInto(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			after, err := params.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			size := len(after) / 3
			for row, from := range x.rows {
				want := before[name][row*size:][:size]
				if from >= 0 {
					want = theirs[from*size:][:size]
				}
				if !slices.Equal(after[row*size:][:size], want) {
					t.Errorf("%v: row %d of %s is %v, want %v", x.names, row, name, after[row*size:][:size], want)
				}
			}
		}
		if heads == 0 {
			t.Error("no head")
		}
	}
}

// Classes are told apart by their names where both sides have them, else by their numbers.
func TestOtherClasses(t *testing.T) {
	// as Resolve calls those without names
	labels := func(labels ...string) Config { return Config{Labels: labels, Names: labels} }
	named := Config{Labels: []string{"2", "3+4"}, Names: []string{"liver", "left kidney+right kidney"}}
	for name, x := range map[string]struct {
		from Config
		want string // "": the head is taken over
	}{
		"the same": {named, ""},
		"spelled otherwise": {Config{Labels: []string{"2", "3+4"},
			Names: []string{"Liver", "Left_Kidney+Right_Kidney"}}, ""},
		"other numbers": {Config{Labels: []string{"7", "9+8"}, Names: named.Names}, ""},
		"merged in another order": {Config{Labels: []string{"2", "4+3"},
			Names: []string{"liver", "right kidney+left kidney"}}, ""},
		"numbers alone, the same":          {labels("2", "4+3"), ""},
		"from before there were any names": {Config{Labels: named.Labels}, ""},
		"nothing known":                    {Config{}, ""},
		"the same numbers, other names": {Config{Labels: named.Labels, Names: []string{"spleen", named.Names[1]}},
			"from number 1 on: spleen, left kidney+right kidney in the checkpoint, liver, left"},
		"another order": {Config{Labels: []string{"3+4", "2"}, Names: []string{named.Names[1], "liver"}},
			"from number 1 on: left kidney+right kidney, liver in the checkpoint, " +
				"liver, left kidney+right kidney in the data"},
		"numbers alone, others": {labels("2", "5"),
			"from number 2 on: label 5 in the checkpoint, left kidney+right kidney in the data"},
		"not merged": {Config{Labels: []string{"2", "3"}, Names: []string{"liver", "left kidney"}},
			"from number 2 on: left kidney in the checkpoint"},
		"fewer": {Config{Labels: []string{"2"}, Names: []string{"liver"}},
			"from number 2 on: no more in the checkpoint, left kidney+right kidney in the data"},
		"more": {Config{Labels: []string{"2", "3+4", "5"}, Names: append(slices.Clone(named.Names), "spleen")},
			"from number 3 on: spleen in the checkpoint, no more in the data"},
	} {
		got, err := named.otherClasses(describe(t, x.from))
		if err != nil || (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
