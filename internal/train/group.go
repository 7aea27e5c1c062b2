package train

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
)

// A Group is the ranks of one training: processes or goroutines, each of which computes a part of
// every batch. Their weights are the same at every step. The zero value is a training alone.
//
// All ranks call the methods of a group in the same order. What a method decides, such as that the
// run ends, it decides alike on all of them.
type Group struct {
	Rank, Size int
	// AllReduce replaces values by their sums over the ranks, the same bits on every rank. All
	// ranks call it as often, with as many values each time.
	AllReduce func(values []float32) error

	ranks voxsaw.Ranks
	bf16  bool          // gradients are sent as bfloat16
	peers device.Peers  // nil: gradients are summed through the hosts' memory
	micro *microBatches // nil: a rank's part of the batch goes through the network at once
}

// GroupOf is the group that the options of a run name.
func GroupOf(o voxsaw.RunOptions) Group {
	if o.Ranks == nil || o.Ranks.Size() < 2 {
		return Group{}
	}
	return Group{Rank: o.Ranks.Rank(), Size: o.Ranks.Size(), AllReduce: o.Ranks.Sum, ranks: o.Ranks}
}

// ElsewhereError says that the run ends because another rank has an error, and that one tells it.
type ElsewhereError struct{}

func (ElsewhereError) Error() string { return "another rank has failed" }

// Alone says whether this process runs every batch through the network by itself and at once, so
// that nothing is to be summed.
func (g Group) Alone() bool { return g.single() && g.micro == nil }

// single says whether there are no other ranks.
func (g Group) single() bool { return g.Size < 2 }

// Share divides the items of a whole batch: this rank has n of them, from the given one on. So the
// ranks together see the items that one rank alone would see.
func (g Group) Share(batch int) (first, n int, err error) {
	if parts := g.MicroBatches(); batch%parts != 0 {
		below := batch / parts * parts
		sizes := fmt.Sprintf("%d or %d", below, below+parts)
		if below == 0 {
			sizes = fmt.Sprint(parts)
		}
		return 0, 0, config.Mistaken(fmt.Errorf("a batch of %d cannot be divided evenly over %s: take a multiple "+
			"of %d, such as %s",
			batch, g.describe(), parts, sizes))
	}
	n = batch / max(g.Size, 1)
	return g.Rank * n, n, nil
}

// describe says what a batch is divided over.
func (g Group) describe() string {
	switch {
	case g.micro == nil:
		return fmt.Sprintf("%d ranks", g.Size)
	case g.single():
		return fmt.Sprintf("%d micro-batches", g.micro.n)
	}
	return fmt.Sprintf("%d ranks of %d micro-batches each", g.Size, g.micro.n)
}

// Divide does work for each of n things, on whichever rank it falls, and gives all ranks the
// results of all. T must come through package gob unchanged: what it has to say is in exported
// fields. An error of any rank is an error of all.
func Divide[T any](ctx context.Context, g Group, n int, work func(ctx context.Context, i int) (T, error)) ([]T, error) {
	all := make([]T, n)
	watch := watcher(ctx)
	watch(0, n)
	if g.single() {
		for i := range all {
			var err error
			if all[i], err = work(ctx, i); err != nil {
				return nil, err
			}
			watch(i+1, n)
		}
		return all, nil
	}
	var own []T
	var failed error
	for i := g.Rank; i < n && failed == nil; i += g.Size {
		result, err := work(ctx, i)
		own, failed = append(own, result), err
		watch(min(i-g.Rank+g.Size, n), n)
	}
	var sent bytes.Buffer
	if failed = errors.Join(failed, gob.NewEncoder(&sent).Encode(own)); failed != nil {
		sent.Reset()
	}
	parts, err := g.ranks.Gather(sent.Bytes())
	if err := errors.Join(failed, err); err != nil {
		return nil, err
	}
	for rank, part := range parts {
		if len(part) == 0 {
			return nil, ElsewhereError{}
		}
		var theirs []T
		if err := gob.NewDecoder(bytes.NewReader(part)).Decode(&theirs); err != nil {
			return nil, err
		}
		for k, result := range theirs {
			all[rank+k*g.Size] = result
		}
	}
	return all, nil
}

// Any says for each of some facts whether it is so on any rank.
func (g Group) Any(facts ...bool) ([]bool, error) {
	if g.single() {
		return facts, nil
	}
	counts := make([]float32, len(facts))
	for i, fact := range facts {
		if fact {
			counts[i] = 1
		}
	}
	err := g.AllReduce(counts)
	for i, count := range counts {
		facts[i] = count > 0
	}
	return facts, err
}

// Agree gives all ranks the outcome of what each has done by itself, such as to read a file, or of
// what rank 0 has done alone, such as to take a folder: an error of any is an error of all. A rank
// that has one keeps it. An error that says that another process has a run, see [Occupied], is such
// an error on the others, too; of any other they get an [ElsewhereError].
func (g Group) Agree(err error) error {
	if g.single() {
		return err
	}
	type outcome struct {
		Failed   bool
		Occupied string
	}
	own := outcome{Failed: err != nil}
	if Occupied(err) {
		own.Occupied = err.Error()
	}
	text, failed := json.Marshal(own)
	if failed != nil {
		return errors.Join(err, failed)
	}
	all, failed := g.ranks.Gather(text)
	if err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	for _, text := range all {
		var theirs outcome
		if err := json.Unmarshal(text, &theirs); err != nil {
			return err
		}
		switch {
		case theirs.Occupied != "":
			return &TakenError{theirs.Occupied}
		case theirs.Failed:
			return ElsewhereError{}
		}
	}
	return nil
}

// AtRoot lets rank 0 alone do something, and gives all ranks its outcome, as [Group.Agree] does.
func (g Group) AtRoot(do func() error) error {
	var err error
	if g.Rank == 0 {
		err = do()
	}
	return g.Agree(err)
}

// FromRoot replaces what v points to by rank 0's, which must come through JSON unchanged.
func (g Group) FromRoot(v any) error {
	if g.single() {
		return nil
	}
	var text []byte
	if g.Rank == 0 {
		var err error
		if text, err = json.Marshal(v); err != nil {
			return err
		}
	}
	all, err := g.ranks.Gather(text)
	if err != nil {
		return err
	}
	return json.Unmarshal(all[0], v)
}

// broadcast replaces values by rank 0's.
func (g Group) broadcast(values []float32) error {
	if len(values) == 0 {
		return nil
	}
	return g.ranks.Broadcast(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values)))
}

// Same makes sure that all ranks are about to do the same, each thing by its name. The error is the
// same on all ranks.
func (g Group) Same(facts map[string]string) error { return g.same(facts) }

// same compares what the ranks are about to do, each thing by its name, with what rank 0 is about
// to do. Settings may differ in some dotted keys. The error is the same on all ranks.
func (g Group) same(facts map[string]string, mayDiffer ...string) error {
	if g.single() {
		return nil
	}
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	all, err := g.ranks.Gather(text)
	if err != nil {
		return err
	}
	var root map[string]string
	for rank, text := range all {
		var theirs map[string]string
		if err := json.Unmarshal(text, &theirs); err != nil {
			return err
		}
		if rank == 0 {
			root = theirs
			continue
		}
		if differences := differing(root, theirs, mayDiffer); len(differences) > 0 {
			return fmt.Errorf("%s and %s cannot work together: %s", g.ranks.Name(rank), g.ranks.Name(0),
				strings.Join(differences, "; "))
		}
	}
	return nil
}

// settingsFact is the fact that is a configuration in YAML.
const settingsFact = "settings"

// differing says in which facts a rank differs from rank 0.
func differing(root, theirs map[string]string, mayDiffer []string) (differences []string) {
	for name, text := range root {
		switch other := theirs[name]; {
		case text == other:
		case name == settingsFact:
			for _, d := range Differences(text, other) {
				if key, values, _ := strings.Cut(d, ":"); !slices.Contains(mayDiffer, key) {
					differences = append(differences, key+":"+strings.NewReplacer(" in the run", " on rank 0", " now",
						" there").Replace(values))
				}
			}
		default:
			differences = append(differences, fmt.Sprintf("%s: %s there, %s on rank 0", name, other, text))
		}
	}
	slices.Sort(differences)
	return differences
}

// sameWeights compares the ranks' weights by a digest. They have taken the same steps, and differ
// only where the sums of gradients did, or where the memory of a machine is faulty.
func (g Group) sameWeights(params Params, when string) error {
	if g.single() {
		return nil
	}
	digest := sha256.New()
	var values []float32
	var err error
	for _, name := range params.Names() {
		if values, err = params.ReadInto(name, values); err != nil {
			break
		}
		if len(values) > 0 {
			digest.Write(unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values)))
		}
	}
	if err = g.Agree(err); err != nil { // of all ranks: the others would wait
		return err
	}
	return g.same(map[string]string{"weights " + when: fmt.Sprintf("digest %.16x", digest.Sum(nil))})
}

// bucketSize is how many gradients are summed at a time, at least: small ones wait for others,
// since every sum takes its time to begin.
const bucketSize = 1 << 18

// A bucket is gradients of some parameters, side by side, that are summed together.
type bucket struct {
	group  Group
	values []float32
	back   []func(sum []float32) error // puts each one back
	sizes  []int
}

// add adds a gradient, which is summed at once if it is large, and with others if it is small.
// back takes the sum.
func (b *bucket) add(gradient []float32, back func(sum []float32) error) error {
	if len(gradient) >= bucketSize {
		if err := b.group.sumGradient(gradient); err != nil {
			return err
		}
		return back(gradient)
	}
	b.values, b.back, b.sizes = append(b.values, gradient...), append(b.back, back), append(b.sizes, len(gradient))
	if len(b.values) < bucketSize {
		return nil
	}
	return b.flush()
}

// flush sums what is there.
func (b *bucket) flush() error {
	if len(b.values) == 0 {
		return nil
	}
	if err := b.group.sumGradient(b.values); err != nil {
		return err
	}
	rest := b.values
	for i, back := range b.back {
		if err := back(rest[:b.sizes[i]]); err != nil {
			return err
		}
		rest = rest[b.sizes[i]:]
	}
	b.values, b.back, b.sizes = b.values[:0], b.back[:0], b.sizes[:0]
	return nil
}

// sumGradients adds up the gradients of all ranks, in the order of the parameters.
func (g Group) sumGradients(dev device.Device, o Optimizer) error {
	if g.single() {
		return nil
	}
	if g.peers != nil {
		return g.sumBetweenPeers(o)
	}
	host, direct := dev.(device.HostMemory)
	b := bucket{group: g}
	var downloaded []float32
	err := o.Gradients(func(name string, gradient device.Buffer) error {
		if direct {
			values := host.Host(gradient)
			return b.add(values, func(sum []float32) error { copy(values, sum); return nil })
		}
		n := int(gradient.Bytes() / 4)
		if cap(downloaded) < n {
			downloaded = make([]float32, n)
		}
		if err := dev.DownloadPlain(downloaded[:n], gradient, 0); err != nil {
			return err
		}
		return b.add(downloaded[:n], func(sum []float32) error { return dev.UploadPlain(gradient, 0, sum) })
	})
	if err == nil {
		err = b.flush()
	}
	if err != nil {
		return fmt.Errorf("summing the gradients over the ranks: %w", err)
	}
	return nil
}
