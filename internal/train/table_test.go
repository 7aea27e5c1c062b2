package train

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
)

// A log may be larger than any file that is read whole: it is gone on with, as any other.
func TestLogIsOfAnySize(t *testing.T) {
	path := filepath.Join(t.TempDir(), metricsFile)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	const steps, wide = 260, 64
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "step,seconds"+strings.Repeat(",wide", wide))
	rest := strings.Repeat(",0."+strings.Repeat("1", 1<<14), wide) + "\n"
	for step := 1; step <= steps; step++ {
		fmt.Fprintf(w, "%d,0.5%s", step, rest)
	}
	fmt.Fprint(w, "261,0.5,0.1234")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if info, err := os.Stat(path); err != nil || info.Size() < 257<<20 {
		t.Fatalf("the log has %d bytes, error %v", info.Size(), err)
	}
	l, err := openTable(path, steps-2)
	if err != nil {
		t.Fatal(err)
	}
	if l.step != steps-2 || l.rows != steps-2 || l.seconds != (steps-2)/2 || l.missing(steps-2) != nil {
		t.Errorf("step %d, %d rows, %g seconds, %v are missing", l.step, l.rows, l.seconds, l.missing(steps-2))
	}
	metrics := []voxsaw.Metric{{Name: "seconds", Value: 2}}
	for range wide {
		metrics = append(metrics, voxsaw.Metric{Name: "wide", Value: 0.25})
	}
	if err := l.add(steps-1, metrics); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	l, err = readTable(path, math.MaxInt)
	if err != nil || l.step != steps-1 || l.dropped || l.seconds != (steps-2)/2+2 {
		t.Errorf("after another step: step %d, something behind it %v, %g seconds, error %v", l.step, l.dropped,
			l.seconds, err)
	}
}
