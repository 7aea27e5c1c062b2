package segment

import (
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/sliding"
)

// A Labelling is networks that predict prepared cases, as far as that decides what it takes.
type Labelling struct {
	Shapes   [][3]int // of the cases, on the prepared grid
	Networks int      // whose probabilities are averaged
	// Targets says that the label maps are for a student ([Predictor.MakeTargets]), which keeps
	// probabilities.
	Targets bool
}

// Need is what a labelling takes with networks of these settings, which are resolved: the
// arithmetic of all cases, and the memory for the largest one. Nothing is computed.
func (l Labelling) Need(dev voxsaw.Device, c Config, o Inference) (n voxsaw.MemoryNeed, err error) {
	d, err := device.From(dev)
	if err != nil {
		return n, err
	}
	rehearser, ok := d.(device.Rehearser)
	if !ok {
		return n, fmt.Errorf("%s cannot tell what predictions need", d.Name())
	}
	b, err := backbone.Of(c.Network)
	if err != nil {
		return n, err
	}
	params := nn.NewParams(rehearser.Rehearse(), 0)
	defer params.Close()
	options := sliding.Options{Size: o.Window, Batch: o.Batch, Overlap: o.Overlap, Logits: o.Logits, Mirror: o.Mirror}
	if options.Size == [3]int{} {
		options.Size = c.Crop
	}
	windows, err := sliding.New(params.Device(), params, b, options, nn.Options{})
	if err != nil {
		return n, err
	}
	defer windows.Close()
	classes, network := c.Network.Classes, params.Need()
	if l.Networks > 1 { // the weights of each lie beside the network
		network += int64(l.Networks) * params.Bytes()
	}
	for _, shape := range l.Shapes {
		n.FLOPs += float64(l.Networks*windows.Windows(shape)) * windows.WindowFLOPs()
		bytes, err := windows.Need(shape, sliding.Wanted{Probabilities: l.Targets})
		if err != nil {
			return n, err
		}
		if l.Targets {
			bytes += averagingBytes(classes, l.Networks, shape)
		}
		n.Bytes = max(n.Bytes, network+bytes)
	}
	return n, nil
}

// averagingBytes is the memory that [Predictor.MakeTargets] takes for a case beside what the
// networks say of it: the mean of their probabilities, the label map of each, and what is kept.
func averagingBytes(classes, networks int, shape [3]int) int64 {
	return int64(4*classes+2*networks+softBytes) * int64(shape[0]) * int64(shape[1]) * int64(shape[2])
}
