package traintest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
)

// stopper ends a run after a step.
type stopper struct {
	step int
	stop func()
}

func (s *stopper) Started(int, int)                       {}
func (s *stopper) Validated(int, voxsaw.Validation, bool) {}
func (s *stopper) Saved(string, int)                      {}
func (s *stopper) Note(string)                            {}
func (s *stopper) Stepped(p voxsaw.Progress) {
	if p.Step == s.step {
		s.stop()
	}
}

// Resumes stops a training after a step, resumes it, and wants the same bytes in some files of its
// folder as one that ran through has, whose folder and summary it returns.
func Resumes(t testing.TB, step int, training func(context.Context, voxsaw.RunOptions) (voxsaw.Summary, error),
	files ...string) (through string, summary voxsaw.Summary) {
	t.Helper()
	through = filepath.Join(t.TempDir(), "through")
	stopped := filepath.Join(t.TempDir(), "stopped")
	summary, err := training(t.Context(), voxsaw.RunOptions{Folder: through})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var interrupted *voxsaw.InterruptedError
	if _, err := training(ctx, voxsaw.RunOptions{Folder: stopped, Observer: &stopper{step, cancel}}); !errors.As(err,
		&interrupted) {
		t.Fatalf("stopped after step %d: error %v", step, err)
	}
	if _, err := training(t.Context(), voxsaw.RunOptions{Folder: stopped, Mode: voxsaw.ModeResume}); err != nil {
		t.Fatal(err)
	}
	SameFiles(t, through, stopped, files...)
	return through, summary
}
