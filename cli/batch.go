package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
)

// An autoBatch is the batch of a run whose settings leave it to the program: --batch auto.
type autoBatch struct {
	batch *int // in the settings; nil: they name a number
	items string
	times int // it is a multiple of that: of the micro-batches
}

// newAutoBatch looks whether the batch is left to the program. Until it is found, it is 1.
// accumulate is the setting of that name.
func newAutoBatch(batch *int, items string, accumulate int) autoBatch {
	if *batch != 0 {
		return autoBatch{}
	}
	*batch = 1
	return autoBatch{batch, items, max(accumulate, 1)}
}

// settle writes the batch into the settings: that of the run that is resumed, or the largest that
// fits. rehearse starts the run, which says what it needs.
func (a autoBatch) settle(w io.Writer, run *runFlags, rehearse func(voxsaw.RunOptions) error) error {
	if a.batch == nil {
		return nil
	}
	if jobOf(run.cmd.Context()).world != nil {
		return withHint(usagef("--batch auto is for one process"),
			"give the whole step's batch as a number, a multiple of the ranks")
	}
	if recorded, ok := run.recorded("batch"); ok {
		if n, err := strconv.Atoi(recorded); err == nil && n > 0 {
			*a.batch = n
			say(w, "batch auto: %d %s, as the run has it", n, a.items)
			return nil
		}
	}
	need := func(batch int) (n voxsaw.MemoryNeed, err error) {
		*a.batch = batch * a.times
		if err = rehearse(voxsaw.RunOptions{Memory: run.memory.planned(), Need: &n}); err != nil {
			err = fmt.Errorf("batch auto: %w", err)
		}
		return n, err
	}
	n, taken, err := planning.LargestBatch(need)
	if err != nil {
		return err
	}
	n *= a.times
	*a.batch = n
	if taken.Limit <= 0 {
		return withHint(usagef("--batch auto: how much memory there is cannot be told here"),
			"say it, such as --memory 8, or give the batch as a number")
	}
	if !taken.Fits() {
		say(w, "batch auto: %d of the %s: more do not fit into %.1f MiB of memory", n, a.items, mebibytes(taken.Limit))
		return nil
	}
	say(w, "batch auto: %d %s, which take %.1f of %.1f MiB of memory; the learning rate stays as it was given", n,
		a.items, mebibytes(taken.Bytes), mebibytes(taken.Limit))
	return nil
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// recorded is a setting of the run to resume; ok is false where there is none.
func (r *runFlags) recorded(key string) (value string, ok bool) {
	if !r.resume || r.out == "" {
		return "", false
	}
	text, err := smallfile.Read(train.ConfigOf(r.out), smallfile.Settings)
	if err != nil {
		return "", false
	}
	s := config.NewSection(string(text))
	return s.Lookup(key)
}
