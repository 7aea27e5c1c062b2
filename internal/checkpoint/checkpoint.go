// Package checkpoint is the one owner of what a checkpoint says about itself.
//
// A checkpoint is one safetensors file. Start at [Description], which is what it says; [Write]
// makes one, [Read] reads the description, strictly, and [Load] sets the weights of a network.
// [Verify] compares the tensors with the digest that was written with them.
//
// The package knows no task and no network: the settings of a task are a text that its owner
// parses.
package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/volume"
)

// Segmentation is the kind of checkpoints of fine-tuning. Those of pretraining are called after
// their pretext task.
const Segmentation = "segmentation"

// format is the version of the description that this program writes and reads.
const format = 6

// ErrForeign is wrapped by the error for a safetensors file without a description: most likely
// another program's weights.
var ErrForeign = errors.New("not a checkpoint of this program")

// A Description is what a checkpoint says about itself.
type Description struct {
	// Kind is what was trained: a pretext task, or Segmentation.
	Kind string
	// Settings is the configuration of the task, YAML. It has a section "network", and a section
	// "preparation" that says how the cases were prepared: see [Description.Network] and
	// [Description.Preparation].
	Settings string
	// Run is the resolved configuration of the whole command, YAML, for people.
	Run string
	// TrainedOn names the cases that were trained on; nil where nobody knows any more.
	TrainedOn []string
	// Learnt is what the weights have learnt from.
	Learnt Learnt
	// Lost says, of a checkpoint that was read, that its list of many cases is in a file that is
	// not beside it, or was lost before ([Learnt].Lost); empty: all are known.
	Lost string
	// Version is the program's, Device what it computed on, Fingerprint the data set's.
	Version, Device, Fingerprint string
	// Engines are the algorithms of convolutions that were chosen by measurement on a GPU, as
	// "convolution = algorithm".
	Engines []string
	Progress

	path string // of the file that it was read from
}

// Progress is how far a run had come.
type Progress struct {
	Step      int     // steps that the weights have seen
	Validated int     // the last step that was validated
	BestStep  int     // the step with the highest score so far; 0 if nothing has been scored
	Best      float64 // that score
	// Largest names, joined by commas, the labels of which predictions are to keep the largest
	// connected component alone, as the last validation decided it.
	Largest string
	// LargestBecause tells a person, for each of these labels in their order, the gain and the
	// number of cases, joined by semicolons.
	LargestBecause string
}

// Kept is a label of which predictions are to keep the largest connected component alone.
type Kept struct {
	Label   string // as the settings have it, such as "2", or "4+5" of one class
	Because string // for a person
}

const betweenReasons = "; "

// Kept are the labels that Largest names.
func (p Progress) Kept() (all []Kept) {
	if p.Largest == "" {
		return nil
	}
	reasons := strings.Split(p.LargestBecause, betweenReasons)
	for n, label := range strings.Split(p.Largest, ",") {
		k := Kept{Label: label}
		if n < len(reasons) {
			k.Because = reasons[n]
		}
		all = append(all, k)
	}
	return all
}

// Keep sets Largest and LargestBecause.
func (p *Progress) Keep(all []Kept) {
	var labels, reasons []string
	for _, k := range all {
		labels, reasons = append(labels, k.Label), append(reasons, k.Because)
	}
	p.Largest, p.LargestBecause = strings.Join(labels, ","), strings.Join(reasons, betweenReasons)
}

// header is the description as it lies in the file, but for the longer texts.
type header struct {
	Format      int      `yaml:"format"`
	Kind        string   `yaml:"kind"`
	Version     string   `yaml:"version"`
	Device      string   `yaml:"device"`
	Engines     []string `yaml:"engines,omitempty"`
	Fingerprint string   `yaml:"fingerprint"`
	Trained     bool     `yaml:"trained"` // whether trained_on says anything
	TrainedOn   []string `yaml:"trained_on"`
	TrainedList *List    `yaml:"trained_list,omitempty"` // instead of many names
	// of the scans, where each kept its own
	Spacings  *volume.Range `yaml:"spacings,omitempty"`
	Series    string        `yaml:"series,omitempty"` // that they were chosen by
	Scans     []string      `yaml:"scans,omitempty"`
	ScanList  *List         `yaml:"scan_list,omitempty"` // instead of many scans
	Lost      string        `yaml:"lost,omitempty"`      // of scans, which lists are
	Step      int           `yaml:"step"`
	Validated int           `yaml:"validated"`
	BestStep  int           `yaml:"best_step"`
	Best      float64       `yaml:"best"`
	Largest   string        `yaml:"largest_component,omitempty"`
	Because   string        `yaml:"largest_component_because,omitempty"`
}

// The keys of the file's metadata.
const (
	headerKey   = "voxsaw"
	settingsKey = "settings"
	runKey      = "run"
	digestKey   = "digest"      // of the tensors
	textKey     = "text_digest" // of the three texts
)

// digestOfTexts is the digest of what a checkpoint says about itself.
func digestOfTexts(meta map[string]string) string {
	sum := sha256.New()
	for _, key := range []string{headerKey, settingsKey, runKey} {
		fmt.Fprintf(sum, "%q\n", meta[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// metadata is the form in which a description lies in the file.
func (d Description) metadata() (map[string]string, error) {
	names := d.TrainedOn
	list, _ := listOf(names)
	if list != nil {
		names = nil
	}
	var h header
	if d.Learnt.Spacings.Known() {
		h.Spacings = &d.Learnt.Spacings
	}
	if len(d.Learnt.Scans) > 0 {
		h.Scans = scanLines(d.Learnt.Scans)
		if h.ScanList, _ = listOf(h.Scans); h.ScanList != nil {
			h.Scans = nil
		}
	}
	text, err := config.Marshal(&header{
		Spacings: h.Spacings, Series: d.Learnt.Series, Scans: h.Scans, ScanList: h.ScanList, Lost: d.Learnt.Lost,
		Format: format, Kind: d.Kind, Version: d.Version, Device: d.Device, Engines: d.Engines,
		Fingerprint: d.Fingerprint, Trained: d.TrainedOn != nil, TrainedOn: names, TrainedList: list,
		Step: d.Step, Validated: d.Validated, BestStep: d.BestStep, Best: d.Best, Largest: d.Largest,
		Because: d.LargestBecause,
	})
	meta := map[string]string{headerKey: string(text), settingsKey: d.Settings, runKey: d.Run}
	meta[textKey] = digestOfTexts(meta)
	return meta, err
}

// parse reads the metadata of a file.
func parse(path string, meta map[string]string) (Description, error) {
	text, ok := meta[headerKey]
	if !ok {
		return Description{}, fmt.Errorf("%s: %w: its metadata have no description", path, ErrForeign)
	}
	if meta[textKey] == "" {
		return Description{}, fmt.Errorf("%s: a build of before version 0.1.0 wrote the checkpoint: train again", path)
	}
	if meta[textKey] != digestOfTexts(meta) {
		return Description{}, fmt.Errorf("%s is damaged: what it says about itself is not what was written", path)
	}
	var h header
	if err := config.Parse(path+": description", []byte(text), &h); err != nil {
		return Description{}, err
	}
	if h.Format != format {
		return Description{}, fmt.Errorf("%s: the checkpoint has format %d, this program reads %d: use the program "+
			"that wrote it (%s), or train again", path, h.Format, format, h.Version)
	}
	d := Description{
		Kind: h.Kind, Settings: meta[settingsKey], Run: meta[runKey], Version: h.Version, Device: h.Device,
		Engines: h.Engines, Fingerprint: h.Fingerprint,
		Progress: Progress{Step: h.Step, Validated: h.Validated, BestStep: h.BestStep, Best: h.Best,
			Largest: h.Largest, LargestBecause: h.Because}, path: path,
	}
	if h.Trained {
		d.TrainedOn = append([]string{}, h.TrainedOn...)
	}
	if h.TrainedList != nil {
		var err error
		if d.TrainedOn, err = h.TrainedList.read(filepath.Dir(path)); err != nil {
			return Description{}, fmt.Errorf("%s: reading which cases it was trained on: %w", path, err)
		}
		if d.TrainedOn == nil {
			d.Lost = fmt.Sprintf("the %d cases that it was trained on are named in %s, which is not beside it",
				h.TrainedList.Names, h.TrainedList.File)
		}
	}
	if err := d.readLearnt(h); err != nil {
		return Description{}, fmt.Errorf("%s: reading which scans it has learnt from: %w", path, err)
	}
	if h.Kind == "" || h.Step < 0 || h.Validated < 0 || h.BestStep < 0 {
		return Description{}, fmt.Errorf("%s: the description of the checkpoint makes no sense: kind %q, step %d", path,
			h.Kind, h.Step)
	}
	return d, nil
}

// readLearnt reads what the weights have learnt from.
func (d *Description) readLearnt(h header) (err error) {
	if h.Spacings != nil {
		if err := h.Spacings.Check(); err != nil {
			return err
		}
		d.Learnt.Spacings = *h.Spacings
	}
	d.Learnt.Series = h.Series
	lines := h.Scans
	if h.ScanList != nil {
		if lines, err = h.ScanList.read(filepath.Dir(d.path)); err != nil {
			return err
		}
		if lines == nil {
			d.Lost = fmt.Sprintf("the %d scans that it has learnt from are named in %s, which is not beside it",
				h.ScanList.Names, h.ScanList.File)
		}
	}
	if d.Learnt.Lost = h.Lost; d.Lost == "" {
		d.Lost = h.Lost
	}
	if len(lines) > 0 {
		d.Learnt.Scans, err = parseScans(lines)
	}
	return err
}

// Parse reads the settings into the struct that cfg points to, over the values that it has. A key
// that no field has is an error.
func (d Description) Parse(cfg any) error {
	return config.Stored(d.path+": settings", []byte(d.Settings), cfg)
}

// OnPhotographs begins the kinds of checkpoints that were trained on photographs.
const OnPhotographs = "photo-"

// ofScans says that a checkpoint is not of scans.
func (d Description) ofScans() error {
	if strings.HasPrefix(d.Kind, OnPhotographs) {
		return fmt.Errorf("%s is a checkpoint of kind %q, which has learnt from photographs: "+
			"with scans goes one of voxsaw pretrain or finetune",
			d.path, d.Kind)
	}
	return nil
}

// Network is the network whose weights the checkpoint holds.
func (d Description) Network() (n voxsaw.Network, err error) {
	if err := d.ofScans(); err != nil {
		return n, err
	}
	n.Dropout = -1 // what a file leaves out is the network's own
	return n, config.ParseSection(d.path+": settings", []byte(d.Settings), "network", &n)
}

// Preparation is how the training cases were prepared.
func (d Description) Preparation() (p volume.Preparation, err error) {
	if err := d.ofScans(); err != nil {
		return p, err
	}
	return p, config.ParseSection(d.path+": settings", []byte(d.Settings), "preparation", &p)
}

// Weights are the named parameters and states of a model, as the package sees them: *nn.Params.
type Weights interface {
	Names() []string // parameters and states, in the order of their declaration
	Shape(name string) device.Shape
	// ReadInto reads into the given memory where that is enough, as append does.
	ReadInto(name string, values []float32) ([]float32, error)
	// Write copies the values.
	Write(name string, values []float32) error
}

// StatePrefix marks tensors that only a resumed run needs: the state of an optimiser.
const StatePrefix = "optimizer."

// AveragePrefix marks the moving average of a parameter, which predictions are made with.
const AveragePrefix = "average/"

// isExtra says whether a tensor is no parameter or state of the network.
func isExtra(name string) bool {
	return strings.HasPrefix(name, StatePrefix) || strings.HasPrefix(name, AveragePrefix)
}

// Mismatches says how the scans and the network that the weights come from differ from those that
// they are to be used with, where a network would see it: voxel size, axes, part of the scan,
// modality and intensities; preset, norm, activation. Each names both values. here is the range of
// the voxel sizes of those scans, where each keeps its own. Settings that the checkpoint does not
// tell are passed over.
func (d Description) Mismatches(p volume.Preparation, here volume.Range, n voxsaw.Network) []string {
	var lines []string
	if own, err := d.Preparation(); err == nil && own.Axcodes != "" {
		// the network of 4D puzzles looks at one time
		if of, err := d.Network(); err == nil && of.InputChannels() == 1 {
			own = own.SeenAs(p)
		}
		lines = Unlike(own, d.Learnt.Spacings, p, here)
	}
	if own, err := d.Network(); err == nil {
		for _, one := range []struct{ what, there, here string }{
			{"preset", own.Preset, n.Preset}, {"norm", own.Norm, n.Norm}, {"activation", own.Activation, n.Activation},
		} {
			if one.there != "" && one.here != "" && one.there != one.here {
				lines = append(lines, unlike(one.what+" of the network", one.there, one.here,
					"the weights were made for the other one"))
			}
		}
	}
	return lines
}

// Unlike is what [Description.Mismatches] says of two preparations: that of the scans which weights
// have learnt from, and that of those which they are to be used with. The ranges are those of the
// voxel sizes, where each scan keeps its own.
func Unlike(there volume.Preparation, rangeThere volume.Range, here volume.Preparation,
	rangeHere volume.Range) (lines []string) {
	for _, one := range here.Differences(there) {
		if m, matters := mismatches[one.Key]; matters && one.Key != spacingKey {
			lines = append(lines, unlike(m.what, one.Old, one.New, m.why))
		}
	}
	if before, now, alike := sameSizes(there, here, rangeThere, rangeHere); !alike {
		lines = append(lines, unlike(mismatches[spacingKey].what, before, now, mismatches[spacingKey].why))
	}
	return lines
}

func unlike(what, there, here, why string) string {
	return fmt.Sprintf("%s: %s in the checkpoint, %s here: %s", what, there, here, why)
}

// sameSizes compares the voxel sizes of scans that were prepared in two ways: numbers as they are,
// a range of the scans' own with its tolerance. Of ranges that nobody knows, the settings decide.
func sameSizes(before, now volume.Preparation, rangeBefore, rangeNow volume.Range) (there, here string, alike bool) {
	there, here = volume.SpacingText(before.Spacing), volume.SpacingText(now.Spacing)
	was, knownBefore := rangeBefore.With(before.Spacing)
	is, known := rangeNow.With(now.Spacing)
	if !slices.Contains(before.Spacing[:], 0) && !slices.Contains(now.Spacing[:], 0) || !knownBefore || !known {
		return there, here, there == here
	}
	return was.String(), is.String(), len(was.Beyond(is)) == 0
}

// spacingKey is that of the voxel size, of [volume.Difference].
const spacingKey = "spacing"

// mismatches says of a setting of the preparation what it is about, and why it matters to weights
// that were trained with another value.
var mismatches = map[string]struct{ what, why string }{
	spacingKey:   {"spacing of the scans", "organs have another size in voxels than the weights know"},
	"crop":       {"part of the scans", "there is another share of air around the patient than the weights know"},
	"window":     {"window of HU", "tissue has another brightness than the weights know"},
	"channels":   {"channels of the scans", "the weights take them for others"},
	"modality":   {"modality of the scans", "tissue has another brightness than the weights know"},
	"intensity":  {"scheme of intensities", "tissue has another brightness than the weights know"},
	"foreground": {"intensities of labelled voxels", "tissue has another brightness than the weights know"},
	"masks":      {"masks of the channels", "tissue has another brightness than the weights know"},
	"axcodes":    {"axes of the scans", "patients lie another way than the weights know"},
}
