//go:build gpu

package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/childtest"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// rounding is a device with what the suite may ask of it: tf32 multiplies with 11 bits of
// significand, bfloat16 stores 8.
type rounding struct {
	*Device
	turn int // takes every fourth of the convolutions that cost most, from this one on; -1: all
}

// Takes makes it a devicetest.Chooser.
func (r rounding) Takes(i int) bool { return r.turn < 0 || i%4 == r.turn%4 }

func (r rounding) RelativeError() float64 {
	switch r.precision {
	case tf32:
		return 4e-3
	case bf16:
		return 1e-2
	}
	return 0
}

// TestDevice runs the whole suite at every precision and with three seeds of the simulator's
// schedule, each in a process of its own: so two cores have work, and a seed gives the same run
// again. In a short test each precision has one seed, by turns, and of the convolutions that cost
// most, which are there for kernels of bfloat16 alone, the others take every fourth: which ones,
// the turn says. The variable makes it such a process.
func TestDevice(t *testing.T) {
	if p := os.Getenv(suiteVariable); p != "" {
		r := rounding{openSimulated(t, precision(p)), -1}
		if text := os.Getenv(someVariable); text != "" {
			var err error
			if r.turn, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
		}
		devicetest.All(t, r)
		return
	}
	library, err := simulator()
	if err != nil {
		t.Fatal(err)
	}
	for n, p := range []precision{fp32, tf32, bf16} {
		for seed := 1; seed <= 3; seed++ {
			if testing.Short() && (seed != n+1 || !turns.Has(t, n, 3)) {
				continue
			}
			t.Run(fmt.Sprintf("%s, seed %d", p, seed), func(t *testing.T) {
				t.Parallel()
				c := suite(library, p, seed, "^TestDevice$")
				if testing.Short() && p != bf16 {
					c.Env = append(c.Env, fmt.Sprint(someVariable, "=", devicetest.Turn(t)+n))
				}
				text, err := c.CombinedOutput()
				if err != nil {
					t.Errorf("%v:\n%s", err, failures(string(text)))
				}
				childtest.ShowSkips(t, string(text))
			})
		}
	}
}

// suite is a process that runs the tests of a pattern, such as the suite or a part of it, without
// turns. With the first seed the GPU has so many multiprocessors that each block makes one tile;
// with the others so few that it makes several.
func suite(library string, p precision, seed int, pattern string, flags ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], append(flags, "-test.v", "-test.run="+pattern)...)
	c.Env = append(os.Environ(), suiteVariable+"="+string(p), "VOXSAW_CUDA_DRIVER="+library, "VOXSAW_TEST_COMMIT=",
		fmt.Sprint("VOXSAW_SIM_SEED=", seed), fmt.Sprint("VOXSAW_SIM_PROCESSORS=", [...]int{132, 2, 1}[seed-1]))
	return c
}

// failures are the lines of a test's output that say what went wrong.
func failures(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "=== ") && !strings.Contains(line, "--- PASS") && len(kept) < 60 {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
