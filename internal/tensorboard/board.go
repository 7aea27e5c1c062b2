package tensorboard

import (
	"errors"
	"image"
	"io/fs"
	"os"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Board writes what happens in a training into an event file. A nil one writes nothing.
type Board struct {
	file    *os.File
	pending Events
	every   time.Duration
	last    time.Time // of writing
}

// A PNG is a picture as it lies in a file.
type PNG struct {
	Data []byte
	Size image.Point
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// Open opens the file of a training that begins after a step. Of steps it is written every so
// often.
func Open(path string, step int, every time.Duration) (*Board, error) {
	b := &Board{every: every, last: time.Now()}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := atomicfile.WriteBytes(path, nil); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	whole, err := Whole(file)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	if whole == 0 {
		b.pending.Begin(now())
	}
	if step > 0 {
		b.pending.Resume(now(), step)
	}
	b.file = file
	return b, nil
}

// Step takes what a step says of itself.
func (b *Board) Step(p voxsaw.Progress) error {
	if b == nil {
		return nil
	}
	t := now()
	b.pending.Scalar(t, p.Step, "train/loss", p.Loss)
	b.pending.Scalar(t, p.Step, "train/lr", p.Rate)
	b.pending.Scalar(t, p.Step, "train/grad_norm", p.GradNorm)
	for _, m := range p.Metrics {
		b.pending.Scalar(t, p.Step, "train/"+m.Name, m.Value)
	}
	if time.Since(b.last) > b.every {
		return b.Write()
	}
	return nil
}

// Validated takes a validation, and the picture of its cases, if there is one.
func (b *Board) Validated(step int, v voxsaw.Validation, cases *PNG) error {
	if b == nil {
		return nil
	}
	t := now()
	if !v.Unscored {
		b.pending.Scalar(t, step, "validation/score", v.Score)
	}
	for _, m := range v.Metrics {
		if numbers.Finite(m.Value) { // a structure that no held-out case shows has no DSC
			b.pending.Scalar(t, step, "validation/"+m.Name, m.Value)
		}
	}
	if cases != nil {
		b.pending.Picture(t, step, "validation/cases", cases.Size.X, cases.Size.Y, cases.Data)
	}
	return b.Write()
}

// Solved takes the picture of how a pretraining does its task.
func (b *Board) Solved(step int, task *PNG) {
	b.pending.Picture(now(), step, "task/picture", task.Size.X, task.Size.Y, task.Data)
}

// Write writes what was taken.
func (b *Board) Write() error {
	if b == nil || len(b.pending) == 0 {
		return nil
	}
	_, err := b.file.Write(b.pending)
	b.pending, b.last = b.pending[:0], time.Now()
	return err
}

// Close writes the rest.
func (b *Board) Close() error {
	if b == nil {
		return nil
	}
	return errors.Join(b.Write(), b.file.Close())
}
