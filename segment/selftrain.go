package segment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file makes targets: it asks the teachers of each scan, then judges all label maps together.

// TargetOptions say of which scans label maps are made, and which are believed.
type TargetOptions struct {
	Scans []string // that have no labels
	// Drawn are labelled cases that a student learns from: volumes are held against theirs. Where
	// there are fewer than eight, label maps are held against each other.
	Drawn []string
	Held  []string // held-out cases, whose labels no teacher may have learnt from
	// Agreement is the least DSC of pairs of teachers, of a structure that is not ignored.
	Agreement float64
	// Before is the folder of the round before, if there was one: a scan whose label maps of both
	// rounds have a mean DSC below Same is left out.
	Before string
	Same   float64
	// Begin is told of each scan that the teachers are about to look at, of so many; may be nil.
	Begin func(id string, of int)
}

// measured is ID.json.
type measured struct {
	Case    quality.Case    `json:"case"`
	Samples map[int][]int32 `json:"samples"` // some voxels of each class
	SHA256  string          `json:"sha256"`
}

// mostSoftSamples is how many voxels of a class are kept to cut crops around.
const mostSoftSamples = 1024

func readMeasured(folder, id string, m *measured) error {
	path := filepath.Join(folder, id+".json")
	text, err := smallfile.Read(path, smallfile.List)
	if err == nil {
		if err = json.Unmarshal(text, m); err != nil {
			err = fmt.Errorf("%s is damaged: %w", path, err)
		}
	}
	return err
}

// MakeTargets writes into a folder what the predictor, which has a checkpoint for each teacher,
// says of prepared scans without labels: see [ReadTargets], which gives what it wrote. It goes on
// where it was stopped, and makes no label map twice. It refuses a folder that holds targets of
// others, and teachers of other classes, of scans prepared in another way, or that have learnt from
// the labels of held-out cases.
func (p *Predictor) MakeTargets(ctx context.Context, of sample.Store, folder string, o TargetOptions) (*Targets,
	error) {
	store, ok := of.(*prepared.Store)
	if !ok {
		return nil, errors.New("label maps are predicted for prepared scans, and these are others")
	}
	record, err := p.targetsRecord(store, o)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.MakeFolder(folder); err != nil {
		return nil, err
	}
	release, err := atomicfile.Hold(folder)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := atomicfile.Clean(folder, nil); err != nil {
		return nil, err
	}
	if err := sameTargets(folder, record, p.Note); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(folder, scansFile)); err == nil {
		return ReadTargets(folder)
	}
	for _, id := range o.Scans { // before teachers have worked for hours
		c, err := store.Open(id)
		if err != nil {
			return nil, err
		}
		of := sliding.Case{Case: c}
		beside := averagingBytes(len(p.labels), len(p.lessons), of.Size())
		if p.windows.Fits(of.Size(), of.Bytes()+beside, sliding.Wanted{Probabilities: true}) != nil {
			return nil, fmt.Errorf("case %s: to average the probabilities of %d classes takes more memory than there "+
				"is: give more, leave the scan out, or prepare scans at a coarser spacing", safetext.Text(id),
				len(p.labels))
		}
	}
	all := make([]measured, len(o.Scans))
	for n, id := range o.Scans {
		if o.Begin != nil {
			o.Begin(id, len(o.Scans))
		}
		if err := readMeasured(folder, id, &all[n]); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if all[n], err = p.predictSoft(ctx, store, folder, id); err != nil {
			return nil, err
		}
	}
	scans, err := p.believe(store, folder, all, o)
	if err != nil {
		return nil, err
	}
	if err := writeJSON(filepath.Join(folder, scansFile), scans); err != nil {
		return nil, err
	}
	return ReadTargets(folder)
}

// mostClasses is how many classes a byte of a label map tells apart.
const mostClasses = 256

// CheckTeachers says, before teachers are trained, what [Predictor.MakeTargets] would refuse once
// they are: the classes that they tell apart, the voxels of a scan, and cases whose labels they
// learn from. The settings are resolved. init is the checkpoint that they begin with, "" where
// there is none yet; they learn from the labelled cases of the options.
func CheckTeachers(c Config, init string, store *prepared.Store, o TargetOptions) error {
	if err := c.fewClasses(); err != nil {
		return err
	}
	trained := store.Spacings(o.Drawn)
	for _, id := range o.Scans {
		if scan, found := store.Record(id); found && trained.Known() {
			spacing, err := spacingOf(store.Preparation(), scan.Original)
			if err != nil {
				return fmt.Errorf("case %s: %w", safetext.Text(id), err)
			}
			if len(trained.Outside(spacing)) > 0 {
				return fmt.Errorf("case %s: %w", safetext.Text(id), &SpacingError{"teachers", spacing, trained})
			}
		}
	}
	learnt, err := learntWith(labelled{Store: store, Train: o.Drawn}, init, voxsaw.RunOptions{}, 0)
	if err == nil {
		err = checkTeachers(learnt, store, o.Held)
	}
	if err != nil && init != "" {
		return fmt.Errorf("teachers that begin with %s: %w", init, err)
	}
	return err
}

// MayTeach says, before they work for hours, whether the networks of some checkpoints may label
// scans of a store, where these cases are held out.
func MayTeach(checkpoints []string, store *prepared.Store, held []string) error {
	var first Config
	for n, path := range checkpoints {
		c, err := readConfig(path)
		if err != nil {
			return err
		}
		if n == 0 {
			first = c
		} else if err := first.agrees(c); err != nil {
			return fmt.Errorf("%s and %s cannot be averaged: %w", checkpoints[0], path, err)
		}
	}
	if err := first.mayTeach(store); err != nil {
		return err
	}
	learnt, err := learntOf(checkpoints)
	if err != nil {
		return err
	}
	return checkTeachers(learnt, store, held)
}

// MayLearnFrom says, before a teacher works for hours, whether a student may learn from the label
// maps of the network of a checkpoint, and, where it joins the teachers afterwards, whether the two
// can be averaged. The student's settings are resolved.
func MayLearnFrom(teacher string, c Config, joins bool) error {
	t, err := readConfig(teacher)
	if err != nil {
		return err
	}
	if err := c.sameClasses(t); err != nil {
		return fmt.Errorf("the teachers, such as %s, %w", teacher, err)
	}
	if !joins {
		return nil
	}
	if err := t.agrees(c); err != nil {
		return fmt.Errorf("the student is to be a teacher in the next round, and cannot be averaged with %s: %w",
			teacher, err)
	}
	return nil
}

// learntOf is what the networks of some checkpoints have learnt from.
func learntOf(checkpoints []string) (learnt checkpoint.Learnt, err error) {
	for _, path := range checkpoints {
		d, err := checkpoint.Read(path)
		if err != nil {
			return learnt, err
		}
		learnt = learnt.After(d)
	}
	return learnt, nil
}

// mayTeach says whether networks of these settings may label scans of a store.
func (c Config) mayTeach(store *prepared.Store) error {
	if learnt, here := c.Preparation, store.Preparation(); learnt != here {
		return fmt.Errorf("the cases were prepared in another way than those that the teachers were trained on "+
			"(%s): prepare the scans as these were, or take other teachers", config.Unlike(&here, &learnt))
	}
	return c.fewClasses()
}

func (c Config) fewClasses() error {
	if n := c.Network.Classes; n > mostClasses {
		return fmt.Errorf("the teachers tell apart %d classes, and %d are kept at most", n, mostClasses)
	}
	return nil
}

// targetsRecord is what the targets were made from.
func (p *Predictor) targetsRecord(store *prepared.Store, o TargetOptions) (r targetsRecord, err error) {
	if err := p.config.mayTeach(store); err != nil {
		return r, err
	}
	switch {
	case len(o.Scans) == 0:
		return r, errors.New("there are no scans without labels to learn from")
	case !(o.Agreement >= 0 && o.Agreement <= 1) || !(o.Same >= 0 && o.Same <= 1):
		return r, fmt.Errorf("an agreement of %v and a likeness of %v: must be from 0 to 1", o.Agreement, o.Same)
	}
	windows := 0
	for _, id := range o.Scans {
		scan, found := store.Record(id)
		if !found {
			_, err := store.Open(id) // says so
			return r, err
		}
		if scan.Group != "" {
			return r, fmt.Errorf("case %s is held back by its data set for testing: it is not learnt from",
				safetext.Text(id))
		}
		if err := p.CheckSpacing(scan.Original); err != nil {
			return r, fmt.Errorf("case %s: %w", safetext.Text(id), err)
		}
		windows += p.windows.Windows(scan.Shape)
	}
	paths := make([]string, len(p.lessons))
	for n, l := range p.lessons {
		paths[n] = l.path
	}
	learnt, err := learntOf(paths)
	if err != nil {
		return r, err
	}
	if err := checkTeachers(learnt, store, o.Held); err != nil {
		return r, err
	}
	r = targetsRecord{Teachers: p.Provenance(), Learnt: learnt.Scans, Lost: learnt.Lost,
		Fingerprint: store.Fingerprint(),
		Labels:      p.config.Labels, Names: p.config.Names, Drawn: o.Drawn, Scans: o.Scans, Agreement: o.Agreement,
		FLOPs: float64(windows*len(p.lessons)) * p.windows.WindowFLOPs()}
	if o.Before != "" {
		before, err := ReadTargets(o.Before)
		if err != nil {
			return r, err
		}
		r.Before, r.Same = before.Digest, o.Same
	}
	return r, nil
}

// sameTargets writes down what targets are made from, or compares it with what is written there.
// Another device is noted.
func sameTargets(folder string, r targetsRecord, note func(text string)) error {
	path := filepath.Join(folder, targetsFile)
	text, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return writeJSON(path, r)
	}
	if err != nil {
		return err
	}
	var before targetsRecord
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	if before.Teachers.Model != r.Teachers.Model {
		return fmt.Errorf("%s holds label maps of other teachers: choose another folder", folder)
	}
	if was := before.Teachers.Device; device.Unlike(was, r.Teachers.Device) && note != nil {
		note(fmt.Sprintf("WARNING: %s holds label maps that were computed by %s, and others are by %s: they differ in "+
			"more than the last bits", folder, was, r.Teachers.Device))
	}
	before.Teachers.Device = r.Teachers.Device
	// through JSON, so that lists that are empty are alike
	again, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var now targetsRecord
	if err := json.Unmarshal(again, &now); err != nil {
		return err
	}
	if !reflect.DeepEqual(before, now) {
		return fmt.Errorf("%s holds label maps of other scans, or that other settings chose: choose another folder",
			folder)
	}
	return nil
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, append(text, '\n'))
}

// predictSoft asks each teacher of a scan, and writes the mean of their probabilities.
func (p *Predictor) predictSoft(ctx context.Context, store *prepared.Store, folder, id string) (m measured, err error) {
	c, err := store.Open(id)
	if err != nil {
		return m, err
	}
	classes := len(p.labels)
	mean := make([]float32, classes*c.Len())
	var maps [][]uint16
	whole := p.ensemble()
	for member := range max(whole.Members, 1) {
		alone := sliding.Ensemble{}
		if whole.Members > 0 {
			alone = sliding.Ensemble{Members: 1, Use: func(int) error { return whole.Use(member) }}
		}
		r, err := p.windows.Infer(ctx, sliding.Case{Case: c}, alone, sliding.Wanted{Probabilities: true}, p.Progress)
		if err != nil {
			return m, fmt.Errorf("case %s: %w", id, err)
		}
		for i, x := range r.Probabilities {
			mean[i] += x
		}
		maps = append(maps, r.Classes)
	}
	bytes := soften(mean, classes) // of a sum: shares are the same
	l, samples := p.hardened(c, bytes)
	m = measured{Case: quality.MeasurePrepared(c.Record, l), Samples: samples}
	if len(maps) > 1 {
		m.Case.Agreement = p.alike(maps)
	}
	sum := sha256.Sum256(bytes)
	m.SHA256 = hex.EncodeToString(sum[:])
	text, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	if err := atomicfile.WriteBytes(filepath.Join(folder, id+softSuffix), bytes); err != nil {
		return m, err
	}
	// it says that the first is there
	return m, atomicfile.WriteBytes(filepath.Join(folder, id+".json"), text)
}

// hardened is the label map of the most probable classes, and some voxels of each, evenly chosen.
func (p *Predictor) hardened(c *prepared.Case, bytes []byte) (*volume.LabelMap, map[int][]int32) {
	l := &volume.LabelMap{Grid: c.Grid, Labels: make([]uint16, c.Len()), Names: p.LabelNames()}
	counts := make([]int, len(p.labels))
	for v := range l.Labels {
		class := bytes[softBytes*v]
		l.Labels[v] = p.labels[class]
		counts[class]++
	}
	samples, seen := map[int][]int32{}, make([]int, len(p.labels))
	for v := range l.Labels {
		class := int(bytes[softBytes*v])
		if class == 0 {
			continue
		}
		// the first voxel of each of so many equal parts
		n := min(counts[class], mostSoftSamples)
		if seen[class]*n/counts[class] >= len(samples[class]) {
			samples[class] = append(samples[class], int32(v))
		}
		seen[class]++
	}
	return l, samples
}

// believe says which structures of which scans are ignored, and which scans are left out.
func (p *Predictor) believe(store *prepared.Store, folder string, all []measured, o TargetOptions) ([]Target, error) {
	maps := make([]quality.Case, len(all))
	for n, m := range all {
		maps[n] = m.Case
	}
	var people []quality.Case
	for _, id := range o.Drawn {
		c, err := store.Open(id)
		if err != nil {
			return nil, err
		}
		l, err := c.LabelMap()
		if err != nil {
			return nil, err
		}
		if l == nil {
			return nil, fmt.Errorf("case %s has no labels to hold others against", id)
		}
		people = append(people, quality.MeasurePrepared(c.Record, p.Reference(l)))
	}
	set := quality.NewSetFor(maps, people)
	var scans []Target
	for n, m := range all {
		t := Target{ID: o.Scans[n], SHA256: m.SHA256, Predicted: true}
		findings := set.Judge(m.Case)
		for class := 1; class < len(p.labels); class++ {
			label, key := p.labels[class], quality.KeyOf(p.labels[class], p.names)
			reason := ""
			if x, known := m.Case.Agreement[label]; known && x < o.Agreement {
				reason = fmt.Sprintf("teachers agree to %.2f", x)
			}
			if at := slices.IndexFunc(findings, func(f quality.Finding) bool { return f.Key == key }); at >= 0 {
				reason = findings[at].Reason
			}
			if reason != "" {
				t.Ignored, t.Classes = append(t.Ignored, key+": "+reason), append(t.Classes, class)
			}
		}
		if len(t.Classes) == len(p.labels)-1 {
			t.Dropped = "all of its structures are ignored"
		}
		if o.Before != "" {
			if err := p.compareRounds(store, folder, &t, o); err != nil {
				return nil, err
			}
		}
		scans = append(scans, t)
	}
	return scans, nil
}

// compareRounds compares a label map with that of the round before.
func (p *Predictor) compareRounds(store *prepared.Store, folder string, t *Target, o TargetOptions) error {
	c, err := store.Open(t.ID)
	if err != nil {
		return err
	}
	var maps [2][]uint16
	for n, from := range []string{o.Before, folder} {
		bytes, err := readSoft(filepath.Join(from, t.ID+softSuffix), c.Len())
		if errors.Is(err, fs.ErrNotExist) && n == 0 {
			return nil // it was not among the scans then
		}
		if err != nil {
			return err
		}
		maps[n] = make([]uint16, c.Len())
		for v := range maps[n] {
			maps[n][v] = uint16(bytes[softBytes*v])
		}
	}
	sum, there := 0.0, 0.0
	for class, dsc := range eval.Dice(maps[0], maps[1], nil, len(p.labels)-1) {
		if class > 0 && !math.IsNaN(dsc) {
			sum, there = sum+dsc, there+1
		}
	}
	if there == 0 {
		return nil
	}
	if t.Same = sum / there; t.Same < o.Same && t.Dropped == "" {
		t.Dropped = fmt.Sprintf("its label map changed since the round before: DSC %.2f", t.Same)
	}
	return nil
}
