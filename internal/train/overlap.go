package train

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// overlap adds gradients up over the ranks while the backward pass goes on: a kernel after each
// gradient puts it into a bucket, and a full bucket is summed at once, by a goroutine of its own.
//
// Buckets are sent in one order on all ranks, whatever order a rank's programs compute gradients
// in: ranks with less memory may compute some layers again, and be done with others later. So a
// bucket waits for those before it. Their order is that in which the programs ask for the kernels,
// which follows from the network alone.
type overlap struct {
	group     Group
	dev       device.HostMemory
	sum       device.Buffer // all gradients, bucket after bucket
	used      int64         // bytes of it that have an owner
	gradients map[string]*sentGradient
	buckets   []sentBucket
	next      int // the first bucket that has not been sent in this step
	// complete says that all gradients of a step were sent, which has not been taken yet
	complete bool

	queue  chan []float32
	sent   sync.WaitGroup // buckets that are being summed
	done   atomic.Int64   // values that have been summed in this step
	failed error          // of the sums; read after sent has been waited for

	steps       int
	total, late int64 // values of all steps, and of these not yet summed when backward passes ended
}

// sentGradient is where a parameter's gradient lies among the sums.
type sentGradient struct {
	bucket int
	view   device.Buffer
	values []float32
}

// sentBucket is gradients that are summed together.
type sentBucket struct {
	values    []float32
	gradients int // in it
	waiting   int // of these, how many are not there yet in this step
}

// newOverlap takes the memory; nil where the device's memory is not the host's, or batches are
// divided into micro-batches: then gradients are summed after the backward pass.
func newOverlap(params Params, g Group) (*overlap, error) {
	host, ok := params.Device().(device.HostMemory)
	if !ok || g.single() || g.micro != nil {
		return nil, nil
	}
	values, err := params.Values()
	if err != nil {
		return nil, err
	}
	o := &overlap{group: g, dev: host, gradients: map[string]*sentGradient{}, queue: make(chan []float32, 1<<12)}
	if o.sum, err = host.Alloc(values.Bytes()); err != nil {
		return nil, err
	}
	go func() {
		for values := range o.queue {
			if o.failed == nil {
				o.failed = o.group.sumGradient(values)
			}
			o.done.Add(int64(len(values)))
			o.sent.Done()
		}
	}()
	return o, nil
}

// after is the group whose other sums wait for those of gradients that were sent.
func (g Group) after(o *overlap) Group {
	sum := g.AllReduce
	g.AllReduce = func(values []float32) error {
		if err := o.drain(); err != nil {
			return err
		}
		return sum(values)
	}
	return g
}

func (o *overlap) close() {
	if o != nil {
		o.sent.Wait()
		close(o.queue)
		o.dev.Free(o.sum)
	}
}

// kernel puts the gradient of a parameter into its bucket. The first time that it is asked for, the
// parameter is given its place.
func (o *overlap) kernel(name string, bytes int64) device.Kernel {
	p := o.gradients[name]
	if p == nil {
		if n := len(o.buckets); n == 0 || len(o.buckets[n-1].values) >= bucketSize {
			o.buckets = append(o.buckets, sentBucket{})
		}
		b := &o.buckets[len(o.buckets)-1]
		p = &sentGradient{bucket: len(o.buckets) - 1, view: o.dev.View(o.sum, o.used, bytes)}
		p.values = o.dev.Host(p.view)
		first := o.used - 4*int64(len(b.values))
		// what alignment leaves between the values is zero on all ranks
		o.used += (bytes + o.dev.Alignment() - 1) / o.dev.Alignment() * o.dev.Alignment()
		b.values = o.dev.Host(o.dev.View(o.sum, first, o.used-first))
		b.gradients, b.waiting = b.gradients+1, b.waiting+1
		o.gradients[name] = p
	}
	return &sendKernel{o, p}
}

// sendKernel is: nothing <- gradient. It is a step of the backward pass.
type sendKernel struct {
	*overlap
	*sentGradient
}

// Scratch implements [device.Kernel].
func (k *sendKernel) Scratch() int64 { return 0 }

// Run implements [device.Kernel].
func (k *sendKernel) Run(_, in []device.Buffer, _ device.Buffer) {
	copy(k.values, k.dev.Host(in[0]))
	k.buckets[k.bucket].waiting--
	for k.next < len(k.buckets) && k.buckets[k.next].waiting == 0 {
		k.sent.Add(1)
		k.queue <- k.buckets[k.next].values
		k.next++
	}
	if k.next == len(k.buckets) {
		k.sendDone()
	}
}

// sendDone notes what is still to be summed once the last bucket of a step has been sent, and makes
// ready for the next step.
func (o *overlap) sendDone() {
	all := int64(0)
	for i := range o.buckets {
		b := &o.buckets[i]
		b.waiting = b.gradients
		all += int64(len(b.values))
	}
	o.total, o.late = o.total+all, o.late+all-o.done.Load()
	o.next, o.complete = 0, true
	o.steps++
}

// drain waits for the sums of what was sent, so that other sums over the ranks keep their place.
func (o *overlap) drain() error {
	if o.next > 0 {
		return fmt.Errorf("a sum over the ranks in the middle of a backward pass, after %d of %d buckets of gradients",
			o.next, len(o.buckets))
	}
	o.sent.Wait()
	if o.failed != nil {
		return fmt.Errorf("summing the gradients over the ranks: %w", o.failed)
	}
	return nil
}

// wait waits for all gradients of a step.
func (o *overlap) wait() error {
	if err := o.drain(); err != nil {
		return err
	}
	if !o.complete {
		return errors.New("the step has left no gradients to be summed over the ranks")
	}
	o.complete = false
	o.done.Store(0)
	return nil
}

// note says how much of the sums the backward pass has hidden; "" where nothing was summed.
func (o *overlap) note() string {
	if o == nil || o.total == 0 {
		return ""
	}
	return fmt.Sprintf("gradients summed over the ranks: %.1f MiB a step in %s, of which %.0f %% were still "+
		"to be summed when the backward pass ended",
		4*float64(o.total)/float64(o.steps)/(1<<20), numbers.Count(len(o.buckets), "bucket"),
		100*float64(o.late)/float64(o.total))
}
