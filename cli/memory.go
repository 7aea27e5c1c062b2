package cli

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/memory"
)

// gibibytes is a limit of memory that a user gives; 0: what the machine has.
type gibibytes float64

// units are what may stand behind a number, in GiB. A number alone is GiB.
var units = []struct {
	name string
	size float64
}{
	{"KiB", 1.0 / (1 << 20)}, {"MiB", 1.0 / (1 << 10)}, {"GiB", 1}, {"TiB", 1 << 10}, {"KB", 1e3 / (1 << 30)},
	{"MB", 1e6 / (1 << 30)}, {"GB", 1e9 / (1 << 30)}, {"TB", 1e12 / (1 << 30)},
}

// Set, String and Type implement [pflag.Value].
func (g *gibibytes) Set(text string) error {
	number, size := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	const most = 1 << 20 // GiB
	x, err := strconv.ParseFloat(number, 64)
	if err == nil && size == 1 && x > most && x <= most<<30 {
		return fmt.Errorf("%q is more than any machine has, for a number alone is GiB: if it is bytes, write %.3gGiB",
			text, x/(1<<30))
	}
	if x *= size; err != nil || !(x >= 0 && x <= most) {
		return fmt.Errorf("%q is no amount of memory: want a number of GiB, or one with its unit, such as 512MiB", text)
	}
	*g = gibibytes(x)
	return nil
}

func (g *gibibytes) String() string {
	if *g == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(*g), 'g', -1, 64) + "GiB"
}

func (*gibibytes) Type() string { return "size" }

// UnmarshalText and MarshalText read and write it in YAML.
func (g *gibibytes) UnmarshalText(text []byte) error { return g.Set(string(text)) }

func (g *gibibytes) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// bytes is the limit in bytes that was asked for; 0: none was.
func (g gibibytes) bytes() int64 { return int64(float64(g) * (1 << 30)) }

// memorySharers is how many ranks of an MPI job run on this machine and share its memory.
var memorySharers = 1

// limit is the limit in bytes, that of the machine where none was asked for: this process's share.
func (g gibibytes) limit() int64 {
	limit := g.bytes()
	if g == 0 {
		limit = memory.Available()
	}
	return limit / int64(memorySharers)
}

// limitAll is limit; the garbage collector works towards it, and what is read is held to it, too.
func (g gibibytes) limitAll() int64 {
	limit := g.limit()
	if limit > 0 {
		debug.SetMemoryLimit(limit)
		memory.Limit(limit)
	}
	return limit
}

// planned is how much of the limit a training, or inference, may plan with.
func (g gibibytes) planned() int64 { return memory.Planned(g.limitAll()) }

// memoryHint adds to an error about memory which of the command's flags take less of it, unless it
// has a hint of its own.
func memoryHint(cmd *cobra.Command, err error) error {
	var advised interface{ Advice() string }
	if !hint.IsShortOfMemory(err) || errors.As(err, &advised) {
		return err
	}
	var smaller []string
	// the sizes of a run that goes on stay, and those of a job are its plan's
	if resumed := cmd.Flags().Lookup("resume"); !isStage(cmd.Context()) && (resumed == nil || !resumed.Changed) {
		init := cmd.Flags().Lookup("init")
		for _, name := range []string{"crop", "window", "batch", "channels"} {
			// channels of plan are names, those of scans; first weights have theirs
			fixed := name == "channels" && init != nil && init.Changed
			if f := cmd.Flags().Lookup(name); f != nil && !fixed &&
				!(name == "channels" && f.Value.Type() == "string") {
				smaller = append(smaller, "--"+name)
			}
		}
	}
	var advice []string
	if len(smaller) > 0 {
		advice = append(advice, "make "+either(smaller)+" smaller")
	}
	if limit := cmd.Flags().Lookup("memory"); limit != nil && limit.Changed {
		advice = append(advice, "raise --memory")
	}
	if len(advice) == 0 {
		return err
	}
	return withHint(err, "%s", strings.Join(advice, ", or "))
}

// either lists choices: a, b or c.
func either(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
