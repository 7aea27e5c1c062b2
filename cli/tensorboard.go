package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/tensorboard"
	"github.com/voxsaw/voxsaw/internal/train"
)

// board writes what happens in a training for TensorBoard. A nil one writes nothing.
type board struct {
	file     *os.File
	pending  tensorboard.Events
	last     time.Time // of writing
	pictured int       // the last step whose picture of the task was taken
}

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// openBoard opens the file in a run's folder, for a training that begins after a step.
func openBoard(folder string, step int) (*board, error) {
	path := filepath.Join(folder, train.Events)
	b := &board{last: time.Now()}
	there, err := smallfile.Read(path, smallfile.Log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if whole := tensorboard.Whole(there); whole == 0 {
		b.pending.Begin(now())
		err = atomicfile.WriteBytes(path, nil)
	} else if err = nil; whole < len(there) {
		err = atomicfile.WriteBytes(path, bytes.Clone(there[:whole]))
	}
	if err != nil {
		return nil, err
	}
	if step > 0 {
		b.pending.Resume(now(), step)
	}
	b.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	return b, err
}

func (b *board) step(p voxsaw.Progress) error {
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
	if time.Since(b.last) > reportEvery {
		return b.write()
	}
	return nil
}

// validated takes a validation, and the pictures of its cases, if there are any.
func (b *board) validated(step int, v voxsaw.Validation, pictures *pngFile) error {
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
	if pictures != nil {
		size := pictures.size
		b.pending.Picture(t, step, "validation/cases", size.X, size.Y, pictures.data)
	}
	return b.write()
}

// pictureTask has pictures made for TensorBoard, if they are asked for, of how a pretraining in a
// folder does its task, until done is called. Without a folder there are none.
func (r *runFlags) pictureTask(folder string, look func(voxsaw.Device, string) (*report.Picture, error)) (done func()) {
	if folder == "" {
		return func() {}
	}
	r.page.task = &taskPicture{checkpoint: train.Last(folder), look: look}
	return r.page.task.close
}

// solved takes the picture of how a pretraining does its task after a step, of which it may be told
// twice, as a checkpoint and as the last one.
func (b *board) solved(step int, task *taskPicture) error {
	if b == nil || task == nil || b.pictured == step {
		return nil
	}
	b.pictured = step
	made, err := task.draw()
	if err != nil {
		return err
	}
	file, err := encodePNG(made.Image)
	if err != nil {
		return err
	}
	b.pending.Picture(now(), step, "task/picture", file.size.X, file.size.Y, file.data)
	return nil
}

func (b *board) write() error {
	if b == nil || len(b.pending) == 0 {
		return nil
	}
	_, err := b.file.Write(b.pending)
	b.pending, b.last = b.pending[:0], time.Now()
	return err
}

func (b *board) close() error {
	if b == nil {
		return nil
	}
	return errors.Join(b.write(), b.file.Close())
}
