package pace

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A Machine is a device that trainings are planned for: a [planning.Machine]. It times a step by
// beginning the training itself, whose loop cuts crops and varies them while the network computes.
type Machine struct {
	Device  device.Device
	Memory  int64           // limit in bytes; 0: none
	Loaders int             // goroutines that prepare data, as of [voxsaw.RunOptions]
	Hours   float64         // that are planned
	Store   *prepared.Store // what will be trained on; nil: a scan is made up
	Labels  []string        // of it that will be learnt, as [segment.Config] has them; empty: all
	// Timing is told what is going to be timed.
	Timing func(what string)

	ctx context.Context
}

// On is the machine whose work ends with a context.
func (m Machine) On(ctx context.Context) *Machine {
	m.ctx = ctx
	return &m
}

// Needs implements [planning.Machine].
func (m *Machine) Needs(w planning.Work) (planning.Cost, error) {
	if err := m.ctx.Err(); err != nil {
		return planning.Cost{}, err
	}
	s, err := bench.Network{Settings: w.Network, Crop: w.Crop, Batch: w.Batch, Memory: m.Memory,
		Clip: segment.DefaultConfig().Train.Clip}.Plan(m.Device)
	return planning.Cost{FLOPs: s.FLOPs, Bytes: s.Total}, err
}

// ofPrepared is what a validation takes for a voxel of a prepared case beside its windows: labels
// as drawn and as predicted, and their components.
const ofPrepared = 12

// windows are those of a validation.
func windows(w planning.Work) sliding.Options {
	return sliding.Options{Size: w.Crop, Batch: 1, Overlap: segment.DefaultConfig().ValidateOverlap,
		Inputs: w.Network.InputChannels()}
}

// Beside implements [planning.Machine]. A GPU has its own memory.
func (m *Machine) Beside(w planning.Work, shape [3]int) (program, validation int64) {
	if _, own := m.Device.(device.Accountant); own {
		return 0, 0
	}
	voxels := int64(shape[0]) * int64(shape[1]) * int64(shape[2])
	validation = windows(w).Bytes(shape, w.Network.Classes)
	if b, err := backbone.Of(w.Network); err == nil { // whose error [Machine.Needs] gives
		validation = windows(w).BytesOf(m.Device, b, shape)
	}
	return memory.GarbageLimit, validation + ofPrepared*voxels
}

// Validate implements [planning.Machine].
func (m *Machine) Validate(w planning.Work, shapes [][3]int) (all time.Duration, err error) {
	pace, err := bench.Validation{Settings: w.Network, Options: windows(w), Memory: m.Memory}.Run(m.ctx, m.Device)
	for _, shape := range shapes {
		all += pace.Of(shape)
	}
	return all, err
}

// Finetune implements [planning.Machine].
func (m *Machine) Finetune(w planning.Work) (planning.Timing, error) {
	if err := m.ctx.Err(); err != nil {
		return planning.Timing{}, err
	}
	m.Timing(fmt.Sprintf("fine-tuning on crops of %dx%dx%d, %d channels", w.Crop[0], w.Crop[1], w.Crop[2],
		w.Network.Channels))
	return m.time(w, true, func(ctx context.Context, data sample.Data, steps int, o voxsaw.RunOptions) error {
		c := segment.DefaultConfig()
		c.Network, c.Crop, c.Batch, c.Train = w.Network, w.Crop, w.Batch, stepsAlone(c.Train, steps)
		if data.Store == m.Store { // what is made up has no other labels
			c.Labels = m.Labels
		}
		_, _, err := segment.Finetune(ctx, m.Device, c, data, "", o)
		return err
	})
}

// Pretrain implements [planning.Machine].
func (m *Machine) Pretrain(p planning.Puzzle) (planning.Timing, error) {
	if err := m.ctx.Err(); err != nil {
		return planning.Timing{}, err
	}
	m.Timing(fmt.Sprintf("puzzles of %dx%dx%d patches", p.Grid[0], p.Grid[1], p.Grid[2]))
	return m.time(p.Work, false, func(ctx context.Context, data sample.Data, steps int, o voxsaw.RunOptions) error {
		c := puzzle3d.DefaultConfig()
		c.Network, c.Crop, c.Patch, c.Batch = p.Network, p.Crop, p.Patch, p.Batch
		copy(c.Grid[:], p.Grid[:])
		c.Train = stepsAlone(c.Train, steps)
		_, err := puzzle3d.Pretrain(ctx, m.Device, c, data, o)
		return err
	})
}

// stepsAlone is a training of so many steps that saves and validates nothing on its way.
func stepsAlone(o voxsaw.Training, steps int) voxsaw.Training {
	o.Steps, o.Schedule, o.ValidateEvery, o.CheckpointEvery = steps, "constant", 0, 0
	return o
}

// time times a training on the prepared cases, or on a made-up one where there are none to learn
// from, for ten seconds or a twentieth of the time that is planned.
func (m *Machine) time(w planning.Work, labels bool,
	begin func(ctx context.Context, data sample.Data, steps int, o voxsaw.RunOptions) error) (t planning.Timing,
	err error) {
	data := sample.Data{}
	if m.Store != nil {
		labelled, unlabelled := m.Store.ForTraining()
		if data = (sample.Data{Store: m.Store, Train: labelled}); !labels {
			data.Train = slices.Concat(labelled, unlabelled)
		}
	}
	if t.MadeUp = len(data.Train) == 0; t.MadeUp {
		folder, err := os.MkdirTemp("", "voxsaw-plan")
		if err != nil {
			return t, err
		}
		defer os.RemoveAll(folder)
		store, err := madeUp(folder, w)
		if err != nil {
			return t, fmt.Errorf("making up a scan to time steps on: %w", err)
		}
		defer store.Close()
		data = sample.Data{Store: store, Train: []string{madeUpID}}
	}
	long := min(timeEnough, time.Duration(m.Hours*float64(time.Hour)/trialShare))
	found, err := trySteps(m.ctx, long, mostPlanned, voxsaw.RunOptions{Memory: m.Memory, Loaders: m.Loaders},
		func(ctx context.Context, steps int, o voxsaw.RunOptions) error { return begin(ctx, data, steps, o) })
	if err == nil {
		err = m.ctx.Err()
	}
	t.Start, t.Step, t.Steps = found.Start, found.Step, found.Timed
	return t, err
}

// mostPlanned is the number of steps whose times are enough for a plan.
const mostPlanned = 100

const madeUpID = "made-up"

// madeUp prepares a scan of noise into a folder, of one and a half crops along each axis, with a
// box of each label: what it takes to cut and vary a crop does not depend on what it shows.
func madeUp(folder string, w planning.Work) (*prepared.Store, error) {
	grid := volume.Grid{Affine: volume.Scaling([3]float64{1, 1, 1})}
	for a, n := range w.Crop {
		grid.Shape[a] = n + n/2
	}
	how := volume.DefaultPreparation()
	how.Crop = volume.CropNone
	in := prepared.Input{ID: madeUpID, Labels: &volume.LabelMap{Grid: grid, Labels: make([]uint16, grid.Len())}}
	var names, modalities []string
	for n := range w.Network.InputChannels() {
		r, v := seed.Rand(0, "made-up scan", uint64(n)), &volume.Volume{Grid: grid, Int16: make([]int16, grid.Len())}
		for at := range v.Int16 {
			v.Int16[at] = int16(how.Window[0]) + int16(r.IntN(int(how.Window[1]-how.Window[0])))
		}
		names, modalities = append(names, fmt.Sprint(n)), append(modalities, volume.ModalityCT)
		if n == 0 {
			in.Image = v
		} else {
			in.More = append(in.More, v)
		}
	}
	if len(names) > 1 {
		how = how.WithChannels(names, modalities)
	}
	row := grid.Shape[0]
	for at := 0; at < len(in.Labels.Labels); at += row {
		label := uint16(1 + at*(w.Network.Classes-1)/len(in.Labels.Labels))
		for n := row / 4; n < row-row/4; n++ {
			in.Labels.Labels[at+n] = label
		}
	}
	writer, err := prepared.NewWriter(folder, how)
	if err == nil {
		_, err = writer.Add(in)
	}
	if err == nil {
		err = writer.Finish()
	}
	if err != nil {
		return nil, err
	}
	return prepared.Open(folder)
}
