package totalseg

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// Set is the models of one task, as they lie in a folder of results.
type Set struct {
	Task
	Folder string
	parts  []part
	rough  *Set  // that finds the box of the task; nil: there is none
	absent []int // numbers of data sets that are not there
	others []string
}

// part is a model, and how many classes of the label map come before its own.
type part struct {
	*nnunet.Model
	number  int // of its data set
	before  int
	classes int // that are taken
}

// found lists the numbers of the data sets of TotalSegmentator that are folders in a folder of
// results, or links to such. They are known by their whole names.
func found(folder string) map[int]bool {
	all := map[int]bool{}
	for number := range dataSets {
		if info, err := os.Stat(filepath.Join(folder, folderOf(number))); err == nil && info.IsDir() {
			all[number] = true
		}
	}
	return all
}

// IsResults says whether a path is a folder of results with models of TotalSegmentator's tasks.
func IsResults(path string) bool { return len(found(path)) > 0 }

// present lists the tasks of which models are there.
func present(all map[int]bool) (there []Task) {
	for _, t := range tasks {
		if slices.ContainsFunc(t.Parts, func(n int) bool { return all[n] }) {
			there = append(there, t)
		}
	}
	return there
}

// Open reads what the models of a task in a folder of results say about themselves. name chooses
// the task, see the error of type [ChoiceError]; empty: "total", or the only one that is there.
// folds choose among the checkpoints of each; none: the ones that TotalSegmentator takes.
func Open(folder, name string, folds []string) (*Set, error) {
	all := found(folder)
	there := present(all)
	if len(there) == 0 {
		return nil, fmt.Errorf("%s has no model of TotalSegmentator", folder)
	}
	s := &Set{Folder: folder}
	var err error
	if s.Task, err = choose(name, there, folder); err != nil {
		return nil, err
	}
	if len(folds) == 0 && !s.AllFolds {
		folds = []string{"0"}
	}
	for _, t := range there {
		if t.Name != s.Name {
			s.others = append(s.others, t.Name)
		}
	}
	before := 0
	for n, number := range s.Parts {
		if !all[number] {
			s.absent = append(s.absent, number)
			before += s.Classes[n] // of a single part the task would not be there
			continue
		}
		p := part{number: number, before: before}
		if p.Model, err = open(filepath.Join(folder, folderOf(number)), folds); err != nil {
			return nil, err
		}
		if p.classes, err = s.classesOf(n, p.Model); err != nil {
			return nil, err
		}
		before += p.classes
		s.parts = append(s.parts, p)
	}
	if s.Box != nil {
		return s, s.openRough()
	}
	return s, nil
}

// classesOf is how many classes of part n are taken.
func (t Task) classesOf(n int, m *nnunet.Model) (int, error) {
	has, want := len(m.Values()), t.Classes[n]+t.Helpers
	switch {
	case m.Regions:
		return 0, fmt.Errorf("%s has regions, which no model of TotalSegmentator has", m.Folder)
	case len(m.Plan.Channels) != 1:
		return 0, fmt.Errorf("%s takes %d channels, where TotalSegmentator's models take one", m.Folder,
			len(m.Plan.Channels))
	case has != want:
		return 0, fmt.Errorf("%s has %d classes, where the model of task %s has %d: "+
			"it is another model than TotalSegmentator's", m.Folder, has, t.Name, want)
	}
	return t.Classes[n], nil
}

// open opens the one model of a data set.
func open(folder string, folds []string) (*nnunet.Model, error) {
	switch near := nnunet.Near(folder); len(near) {
	case 0:
		return nil, fmt.Errorf("%s has no model: a folder TRAINER__PLANS__CONFIGURATION with plans.json is missing",
			folder)
	case 1:
		return nnunet.Open(near[0], folds)
	default:
		return nil, fmt.Errorf("%s has several models, %s: leave one there", folder, safetext.List(near))
	}
}

// Notes are what a person should know of the models.
func (s *Set) Notes() []string {
	all := s.Names()
	var names []string
	for _, label := range slices.Sorted(maps.Keys(all)) {
		names = append(names, all[label])
	}
	spacing := volume.SpacingText(s.Spacing)
	if s.Spacing == ([3]float64{}) {
		spacing = "the scan's own voxels"
	}
	notes := []string{
		fmt.Sprintf("TotalSegmentator's task %s: %s of nnU-Net at %s, for %s; everything else is background", s.Name,
			numbers.Count(len(s.parts), "model"), spacing, safetext.List(names)),
		s.licence(),
	}
	if s.Box != nil {
		notes = append(notes, fmt.Sprintf("it looks at a box around %s alone, which task %s finds first",
			safetext.List(s.Box.Organs), s.Box.Task))
	}
	if len(s.absent) > 0 {
		notes = append(notes, fmt.Sprintf("WARNING: of task %s, the data sets %s are not in %s: "+
			"what they find is background", s.Name, numbers.List(s.absent), s.Folder))
	}
	if len(s.others) > 0 {
		notes = append(notes, fmt.Sprintf("--task chooses another task: %s", safetext.List(s.others)))
	}
	return notes
}

// Channels are the names of the channels that the models take.
func (s *Set) Channels() []string { return s.parts[0].Model.Labels.Channels }

// Names are those of the labels.
func (s *Set) Names() map[uint16]string {
	names := map[uint16]string{}
	for _, p := range s.parts {
		for label, name := range p.Model.Names() {
			if int(label) <= p.classes {
				names[uint16(p.before)+label] = name
			}
		}
	}
	return names
}

// Labels lists the labels that label maps may have, without the background.
func (s *Set) Labels() (all []uint16) {
	for _, p := range s.parts {
		for n := range p.classes {
			all = append(all, uint16(p.before+n+1))
		}
	}
	return all
}

// Model makes label maps with the models of a task. One of them is in memory at a time.
type Model struct {
	*Set
	rough    *Model // that finds the box of the task; nil: there is none
	finds    bool   // it finds the box of another task
	dev      device.Device
	memory   int64
	progress func(done, total int)
	note     func(text string)
	made     segment.Provenance
	network  int64 // bytes of the largest one
}

// NewModel looks whether all models of a task are whole, and fit into the limit of memory in bytes,
// of which 0 is none.
func NewModel(dev device.Device, s *Set, memory int64) (*Model, error) {
	m := &Model{Set: s, dev: dev, memory: memory}
	sum := sha256.New()
	if s.rough != nil {
		var err error
		if m.rough, err = NewModel(dev, s.rough, memory); err != nil {
			return nil, err
		}
		m.network, m.rough.finds = m.rough.network, true
		fmt.Fprintf(sum, "%s\n", m.rough.made.Model)
	}
	fmt.Fprintf(sum, "%s %s\n", s.Name, numbers.Extents(s.Spacing[:]))
	for _, part := range s.parts {
		p, err := m.open(part, memory)
		if err != nil {
			return nil, err
		}
		m.network = max(m.network, p.Bytes())
		p.Close()
		digest, err := part.Digest()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%s\n", digest)
	}
	const digits = 32 // as those of this program's models have
	m.made = segment.Provenance{Model: hex.EncodeToString(sum.Sum(nil))[:digits], Window: s.parts[0].Patch,
		Overlap: 1 - cmp.Or(s.Step, 0.5), Device: device.Computer(dev.Describe())}
	return m, nil
}

// open makes the network of a part, with so much memory.
func (m *Model) open(p part, memory int64) (*nnunet.Predictor, error) {
	return nnunet.NewPredictor(m.dev, p.Model, nnunet.Options{NoMirroring: true, Step: m.Step, Memory: memory})
}

// Bytes is the memory of the largest network.
func (m *Model) Bytes() int64 { return m.network }

// Provenance implements predict.Model.
func (m *Model) Provenance() segment.Provenance { return m.made }

// LabelNames implements predict.Model.
func (m *Model) LabelNames() map[uint16]string { return m.Names() }

// Watch has the windows of a scan counted, part by part.
func (m *Model) Watch(progress func(done, total int), note func(text string)) {
	m.progress, m.note = progress, note
}

// CheckSpacing finds nothing: scans are resampled.
func (m *Model) CheckSpacing(volume.Grid) error { return nil }

// Modality is what dataset.json calls the channel.
func (m *Model) Modality() string { return dataset.ModalityOfChannel(m.Channels()[0]) }

// AboveHU implements predict.Model: the tasks are trained on Hounsfield units.
func (m *Model) AboveHU() bool { return false }

// LearntFrom is not known of nnU-Net's checkpoints.
func (m *Model) LearntFrom(string, string) (how segment.Lesson, found bool) { return how, false }

// prepared is the grid that a scan is resampled to, turned to RAS axes.
func (m *Model) prepared(g volume.Grid) (volume.Grid, error) {
	g, err := g.Oriented(ras)
	if err != nil {
		return g, err
	}
	shape, ratio := shapeAt(g, m.Spacing)
	for a, n := range shape {
		if n < 1 {
			return g, fmt.Errorf("the scan of %s voxels has none at %s along one axis", numbers.Extents(g.Shape[:]),
				volume.SpacingText(m.Spacing))
		}
		for row := range 3 {
			g.Affine[row][a] /= ratio[a]
		}
	}
	g.Shape = shape
	return g, nil
}

const ras = "RAS"

// beside is the memory that a scan takes besides what a part needs: while it is prepared, and while
// parts are predicted.
func (m *Model) beside(g, small volume.Grid, voxelBytes int) (preparing, predicting int64) {
	own, at := int64(g.Len()), int64(small.Len())
	// the scan, and turned; then the resampled one, the merged labels, and at the end both label
	// maps
	return 2*int64(voxelBytes)*own + 4*at, 4*at + 2*at
}

// left is the memory that is left for a network and a scan at a spacing; 0: there is no limit.
func (m *Model) left(g, small volume.Grid) int64 {
	if m.memory <= 0 {
		return 0
	}
	_, beside := m.beside(g, small, 0)
	return max(m.memory-beside, 1)
}

// Fits says whether there is memory for a scan, before it is read. Of a task that looks at a box
// alone, it says so of what finds the box.
func (m *Model) Fits(g volume.Grid, voxelBytes int, o segment.MapOptions) error {
	if m.rough != nil {
		return m.roughIn(g, voxelBytes).Fits(g, voxelBytes, o)
	}
	return m.fits(g, voxelBytes)
}

func (m *Model) fits(g volume.Grid, voxelBytes int) error {
	small, err := m.prepared(g)
	if err != nil || m.memory <= 0 {
		return err
	}
	preparing, _ := m.beside(g, small, voxelBytes)
	ending := 2*int64(small.Len()) + 4*int64(g.Len())
	if m.Body { // components are 4 bytes a voxel, which grow by a quarter, and a mark
		ending = max(ending, 8*int64(small.Len()))
	}
	if max(preparing, ending) > m.memory {
		return fmt.Errorf("a scan of %s voxels takes %d MiB of memory, of which there are %d: "+
			"raise --memory, or take a part of the scan", numbers.Extents(g.Shape[:]),
			max(preparing, ending)>>20, m.memory>>20)
	}
	for _, part := range m.parts {
		p, err := m.open(part, m.left(g, small))
		if err != nil {
			return err
		}
		err = p.Fits(small, 4)
		p.Close()
		if err != nil {
			return fmt.Errorf("data set %d: %w", part.number, err)
		}
	}
	return nil
}

// AsStored implements predict.Model.
func (*Model) AsStored() bool { return true }

// Predict implements predict.Model. It uses the voxels of the scan up.
func (m *Model) Predict(ctx context.Context, channels []*volume.Volume, _ segment.MapOptions) (*volume.LabelMap,
	*segment.Maps, error) {
	if len(channels) != 1 {
		return nil, nil, fmt.Errorf("TotalSegmentator's models take one channel, there are %d", len(channels))
	}
	scan := channels[0]
	if err := scan.CheckFinite(); err != nil {
		return nil, nil, fmt.Errorf("%w: put numbers in their place, such as -1024 for air", err)
	}
	predict := m.whole
	if m.rough != nil {
		predict = m.inBox
	}
	l, err := predict(ctx, scan)
	return l, nil, err
}

// whole predicts all of a scan.
func (m *Model) whole(ctx context.Context, scan *volume.Volume) (*volume.LabelMap, error) {
	own := scan.Grid
	if _, err := m.prepared(own); err != nil {
		return nil, err
	}
	turned, err := scan.Orient(ras)
	if err != nil {
		return nil, err
	}
	turnedGrid, small := turned.Grid, linear(turned, m.Spacing)
	scan.Int16, scan.Float32, turned.Int16, turned.Float32 = nil, nil, nil, nil
	merged := &volume.LabelMap{Grid: small.Grid, Labels: make([]uint16, small.Len()), Names: m.Names()}
	for n, part := range m.parts {
		if err := m.add(ctx, merged, small, n, part, m.left(own, small.Grid)); err != nil {
			return nil, fmt.Errorf("data set %d: %w", part.number, err)
		}
	}
	if m.Body {
		cleanBody(merged)
	}
	l := merged
	if merged.Grid != turnedGrid {
		l = nearest(merged, turnedGrid)
	}
	if l, err = l.Orient(own.Axcodes()); err != nil {
		return nil, err
	}
	l.Grid = own
	return l, nil
}

// add predicts a part, whose labels are written over those of parts before it.
func (m *Model) add(ctx context.Context, merged *volume.LabelMap, small *volume.Volume, n int, part part,
	memory int64) error {
	p, err := m.open(part, memory)
	if err != nil {
		return err
	}
	defer p.Close()
	p.Progress = func(done, total int) {
		if m.progress != nil { // parts have as many windows, but where their patches differ
			m.progress(n*total+done, len(m.parts)*total)
		}
	}
	p.Note = func(text string) {
		if m.note != nil {
			m.note(fmt.Sprintf("data set %d: %s", part.number, text))
		}
	}
	scan := *small
	scan.Float32 = slices.Clone(small.Float32)
	l, err := p.Predict(ctx, []*volume.Volume{&scan})
	if err != nil {
		return err
	}
	for i, label := range l.Labels {
		if label > 0 && int(label) <= part.classes {
			merged.Labels[i] = uint16(part.before) + label
		}
	}
	return nil
}
