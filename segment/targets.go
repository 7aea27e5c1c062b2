package segment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: label maps that teachers predicted for scans without labels, as a fine-tuning learns
// from them. [Predictor.MakeTargets] writes them.
//
// A folder of targets has
//
//	targets.json   what they are of: the teachers, the prepared data, the classes
//	ID.soft        of each scan, on its prepared voxels: the two classes that the teachers find the
//	               most probable, and the share of the first in both, in 255ths; three bytes a voxel
//	ID.json        what was measured of that label map, and the digest of ID.soft
//	scans.json     which structures of which scans are ignored, which scans are left out, and why;
//	               it is written last
//
// The prepared folder stays as it is: a scan without labels is one there, and so nothing predicted
// is ever validated on, tested on, or taken for a reference.
//
// A training draws the class of each voxel anew for each crop, the first with its share. The
// cross-entropy of drawn classes is on average that with the probabilities themselves, and so is
// its gradient, for both are linear in them; so is soft Dice but for what vanishes with many
// voxels. It takes no other loss, and every device and any number of ranks do it.
const (
	targetsFile = "targets.json"
	scansFile   = "scans.json"
	softSuffix  = ".soft"
)

// bytes of a voxel: two classes, and the share of the first of them.
const softBytes = 3

// targetsRecord is targets.json.
type targetsRecord struct {
	Teachers    Provenance        `json:"teachers"`
	Learnt      []checkpoint.Scan `json:"learnt"`         // what the teachers have learnt from
	Lost        string            `json:"lost,omitempty"` // see [checkpoint.Learnt]
	Fingerprint string            `json:"data"`
	Labels      []string          `json:"labels"` // classes, as those of a configuration
	Names       []string          `json:"names"`  // and what they are
	Drawn       []string          `json:"drawn"`  // labelled cases that volumes are held against
	Scans       []string          `json:"scans"`
	Agreement   float64           `json:"agreement"`
	FLOPs       float64           `json:"flops"`
	// digest of the targets of the round before
	Before string  `json:"before,omitempty"`
	Same   float64 `json:"same,omitempty"`
}

// A Target is what became of the label map that teachers predicted for a scan.
type Target struct {
	ID      string   `json:"id"`
	Ignored []string `json:"ignored,omitempty"` // structures, each with the reason
	Dropped string   `json:"dropped,omitempty"` // why the scan is left out; "": it is not
	// mean DSC of this round's label map and the one before; 0 where there was none
	Same float64 `json:"same,omitempty"`
	// Predicted is always true: these labels are nobody's
	Predicted bool `json:"predicted"`

	Classes []int  `json:"ignored_classes,omitempty"`
	SHA256  string `json:"sha256"` // of the .soft file
}

// Targets are the label maps in a folder, and what became of each.
type Targets struct {
	Scans  []Target
	Digest string // of all of them, and of how they came about
	// FLOPs is the arithmetic that the teachers took to make them, as [voxsaw.Summary] counts it.
	FLOPs float64

	folder string
	record targetsRecord
}

// Kept lists the scans that are learnt from, in the order of the targets.
func (t *Targets) Kept() (ids []string) {
	for _, s := range t.Scans {
		if s.Dropped == "" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// ReadTargets reads what a folder holds that [Predictor.MakeTargets] has finished.
func ReadTargets(folder string) (*Targets, error) {
	t := &Targets{folder: folder}
	h := sha256.New()
	for _, part := range []struct {
		name string
		into any
	}{{targetsFile, &t.record}, {scansFile, &t.Scans}} {
		path := filepath.Join(folder, part.name)
		text, err := smallfile.Read(path, smallfile.List)
		switch {
		case errors.Is(err, fs.ErrNotExist) && part.name == scansFile:
			return nil, fmt.Errorf("%s is not finished: the command that made it goes on with it", folder)
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s holds no label maps of teachers, as voxsaw selftrain makes them: %w", folder,
				err)
		case err != nil:
			return nil, err
		}
		if err := json.Unmarshal(text, part.into); err != nil {
			return nil, fmt.Errorf("%s is damaged: %w", path, err)
		}
		h.Write(text)
	}
	t.FLOPs = t.record.FLOPs
	t.Digest = hex.EncodeToString(h.Sum(nil))
	return t, nil
}

// A soft is the label map of a scan that is learnt from.
type soft struct {
	Target
	ignored []bool // by class
	there   []softClass
	path    string
	shape   [3]int
	checked func() error
}

// softClass is some of the voxels of a class.
type softClass struct{ samples []int32 }

// openTargets gives the label maps that a fine-tuning learns from, by the names of scans, their
// digest, and what their teachers have learnt from; nothing where it learns from none.
func (c Config) openTargets(data labelled) (all map[string]*soft, digest string, taught *checkpoint.Learnt, err error) {
	if c.Targets == "" {
		return nil, "", nil, nil
	}
	t, err := ReadTargets(c.Targets)
	if err != nil {
		return nil, "", nil, err
	}
	switch {
	case c.Predicted != "" && c.Predicted != t.Digest:
		return nil, "", nil, fmt.Errorf("targets: %s holds other label maps than the run has begun with", c.Targets)
	case t.record.Fingerprint != data.Store.Fingerprint():
		return nil, "", nil, fmt.Errorf("targets: %s is of other prepared cases: make label maps of these", c.Targets)
	}
	taughtBy := Config{Labels: t.record.Labels, Names: t.record.Names}
	if err := c.sameClasses(taughtBy); err != nil {
		return nil, "", nil, fmt.Errorf("targets: the teachers of %s %w", c.Targets, err)
	}
	taught = &checkpoint.Learnt{Scans: t.record.Learnt, Lost: t.record.Lost}
	if err := checkTeachers(*taught, data.Store, data.Validate); err != nil {
		return nil, "", nil, fmt.Errorf("targets: %s: %w", c.Targets, err)
	}
	all = map[string]*soft{}
	for _, s := range t.Scans {
		if !slices.Contains(data.Unlabelled, s.ID) {
			continue
		}
		if s.Dropped != "" {
			return nil, "", nil, fmt.Errorf("targets: %s leaves %s out: %s", c.Targets, safetext.Text(s.ID), s.Dropped)
		}
		if !c.mergesUndrawn() && len(s.Classes) > 0 {
			continue // what is ignored cannot be merged: the scan goes
		}
		if all[s.ID], err = openSoft(c.Targets, s, data.Store, c.Network.Classes); err != nil {
			return nil, "", nil, err
		}
	}
	for _, id := range data.Unlabelled {
		if !slices.ContainsFunc(t.Scans, func(s Target) bool { return s.ID == id }) {
			return nil, "", nil, fmt.Errorf("targets: %s has no label map of %s", c.Targets, safetext.Text(id))
		}
	}
	if len(all) == 0 {
		return nil, "", nil, c.noTargets()
	}
	return all, t.Digest, taught, nil
}

// noTargets is the error where teachers' label maps leave nothing.
func (c Config) noTargets() error {
	return fmt.Errorf("targets: %s leaves no scan to learn from, and scans.json there says why: "+
		"teachers that have learnt longer, or from more cases, draw better label maps", c.Targets)
}

// LearntTargets is the digest of the label maps of teachers that the run of a checkpoint learns
// from, "" where it learns from none or there is no checkpoint yet.
func LearntTargets(path string) (string, error) {
	d, err := checkpoint.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var c Config
	if err == nil {
		err = d.Parse(&c)
	}
	return c.Predicted, err
}

// sameClasses says how the classes that teachers tell apart differ from those of a run, in what
// they are, their numbers or their order.
func (c Config) sameClasses(teachers Config) error {
	if slices.Equal(teachers.Labels, c.Labels) && slices.EqualFunc(teachers.classes(), c.classes(), class.is) {
		return nil
	}
	return fmt.Errorf("tell apart %s, and this run is to tell apart %s", teachers.shownClasses(), c.shownClasses())
}

// shownClasses are the classes with their numbers, for people.
func (c Config) shownClasses() string {
	var all []string
	for n, class := range c.classes() {
		shown := c.Labels[n]
		if class.names != nil {
			shown += " " + class.shown
		}
		all = append(all, shown)
	}
	return strings.Join(all, ", ")
}

// openSoft opens the label map of a scan. Its voxels are compared with their digest when the first
// of them are read.
func openSoft(folder string, s Target, store *prepared.Store, classes int) (*soft, error) {
	record, found := store.Record(s.ID)
	if !found {
		_, err := store.Open(s.ID) // says so
		return nil, err
	}
	var m measured
	if err := readMeasured(folder, s.ID, &m); err != nil {
		return nil, err
	}
	o := &soft{Target: s, path: filepath.Join(folder, s.ID+softSuffix), shape: record.Shape,
		ignored: make([]bool, classes), there: make([]softClass, classes)}
	for _, class := range s.Classes {
		if class < 1 || class >= classes {
			return nil, fmt.Errorf("%s is damaged: it ignores class %d of %d", filepath.Join(folder, scansFile), class,
				classes)
		}
		o.ignored[class] = true
	}
	for class, samples := range m.Samples {
		if class < 1 || class >= classes || slices.ContainsFunc(samples, func(at int32) bool {
			return at < 0 || int(at) >= record.Len()
		}) {
			return nil, fmt.Errorf("%s is damaged: it has voxels that the scan has not",
				filepath.Join(folder, s.ID+".json"))
		}
		o.there[class].samples = samples
	}
	o.checked = sync.OnceValue(func() error {
		data, err := readSoft(o.path, record.Len())
		if sum := sha256.Sum256(data); err == nil && hex.EncodeToString(sum[:]) != s.SHA256 {
			err = fmt.Errorf("%s is damaged: it is not what was written", o.path)
		}
		return err
	})
	return o, nil
}

// readSoft reads a whole label map of so many voxels.
func readSoft(path string, voxels int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, softBytes*int64(voxels)+1))
	if err == nil && len(data) != softBytes*voxels {
		err = fmt.Errorf("%s is damaged: it is not what was written", path)
	}
	return data, err
}

// foreground draws a voxel that shows a structure which is not ignored, each as likely as the
// others.
func (o *soft) foreground(r *rand.Rand) (voxel [3]int, found bool) {
	var there []int
	for class, c := range o.there {
		if len(c.samples) > 0 && !o.ignored[class] {
			there = append(there, class)
		}
	}
	if len(there) == 0 {
		return voxel, false
	}
	samples := o.there[there[r.IntN(len(there))]].samples
	at := int(samples[r.IntN(len(samples))])
	return [3]int{at % o.shape[0], at / o.shape[0] % o.shape[1], at / (o.shape[0] * o.shape[1])}, true
}

// draw is a [reader] that draws the class of each voxel, by its probabilities, from a generator.
// Ignored classes are one with the background, as their logits are; what lies outside the scan is
// background.
func (o *soft) draw(r *rand.Rand) reader {
	return func(to []float32, origin, size [3]int) error {
		if err := o.checked(); err != nil {
			return err
		}
		f, err := os.Open(o.path)
		if err != nil {
			return err
		}
		defer f.Close()
		clear(to)
		first, end := origin, origin // of the part that lies in the scan
		for axis, n := range o.shape {
			first[axis], end[axis] = max(origin[axis], 0), min(origin[axis]+size[axis], n)
			if first[axis] >= end[axis] {
				return nil
			}
		}
		rows := make([]byte, softBytes*o.shape[0]*(end[1]-first[1]))
		for k := first[2]; k < end[2]; k++ {
			if _, err := f.ReadAt(rows, int64(softBytes)*int64(o.shape[0])*int64(first[1]+o.shape[1]*k)); err != nil {
				return fmt.Errorf("%s: %w", o.path, err)
			}
			for j := first[1]; j < end[1]; j++ {
				row := rows[softBytes*(first[0]+o.shape[0]*(j-first[1])):]
				at := first[0] - origin[0] + size[0]*(j-origin[1]+size[1]*(k-origin[2]))
				for i := range end[0] - first[0] {
					if class := drawn(row[softBytes*i:], r); int(class) < len(o.ignored) && !o.ignored[class] {
						to[at+i] = float32(class)
					}
				}
			}
		}
		return nil
	}
}

// drawn draws one of the two classes of a voxel.
func drawn(voxel []byte, r *rand.Rand) byte {
	if share := voxel[2]; share < 255 && r.IntN(255) >= int(share) {
		return voxel[1]
	}
	return voxel[0]
}

// soften writes the two most probable classes of each voxel, of probabilities (classes, voxels),
// and the share of the first in both, which is at least a half. Of equals the lower class comes
// first.
func soften(p []float32, classes int) []byte {
	voxels := len(p) / classes
	out := make([]byte, softBytes*voxels)
	for v := range voxels {
		first, second := 0, -1
		for class := 1; class < classes; class++ {
			switch x := p[class*voxels+v]; {
			case x > p[first*voxels+v]:
				first, second = class, first
			case second < 0 || x > p[second*voxels+v]:
				second = class
			}
		}
		a, b := p[first*voxels+v], p[second*voxels+v]
		out[softBytes*v], out[softBytes*v+1], out[softBytes*v+2] = byte(first), byte(second), 255
		if b > 0 {
			out[softBytes*v+2] = byte(255*a/(a+b) + 0.5)
		}
	}
	return out
}

// checkTeachers refuses teachers that have learnt from the labels of held-out cases, or may have:
// what they predict would tell of them.
func checkTeachers(learnt checkpoint.Learnt, store *prepared.Store, held []string) error {
	if learnt.Lost != "" && len(held) > 0 {
		return fmt.Errorf("nobody can say whether teachers have learnt from cases that are held out here: %s: "+
			"copy that file back beside the checkpoint, or take other teachers", learnt.Lost)
	}
	seen := checkpoint.Description{Learnt: learnt}.Seen()
	var told []string
	for n, digest := range store.Voxels(held) {
		if scan, found := seen.Find(held[n], digest); found && scan.Labels {
			told = append(told, scan.Called(held[n]))
		}
	}
	if len(told) > 0 {
		return fmt.Errorf("teachers have learnt from the labels of cases that are held out here, "+
			"and what they predict would tell of them: %s: take teachers of the same fold", safetext.List(told))
	}
	return nil
}
