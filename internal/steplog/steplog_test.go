package steplog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.csv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		loss []float64
		err  string
	}{
		"whole":            {"step,loss\n1,3\n2,NaN\n3,1e-3\n", []float64{3, 0, 1e-3}, ""},
		"is written":       {"step,loss\n1,3\n2,2", []float64{3}, ""},
		"was cut short":    {"step,loss\n1,3\n2\n3,1\n", []float64{3}, ""},
		"of Windows":       {"step,loss\r\n1,3\r\n", []float64{3}, ""},
		"is empty":         {"", nil, ""},
		"holds words":      {"step,loss\n1,3\n2,two\n", []float64{3}, `line 3: loss "two" is not a number`},
		"has no line ends": {strings.Repeat("1,", longest), nil, "remove it or put the right file there"},
	} {
		path := write(t, c.text)
		l, err := Read(path)
		got := l.Values["loss"]
		for n, v := range got {
			if v != v {
				got[n] = 0
			}
		}
		if !slices.Equal(got, c.loss) || (err != nil) != (c.err != "") {
			t.Errorf("a table that %s: %v, error %v; want %v", name, l.Values["loss"], err, c.loss)
		}
		if err != nil && (!strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path)) {
			t.Errorf("a table that %s: %q does not say %q", name, err, c.err)
		}
	}
	if _, err := Read(t.TempDir()); err == nil {
		t.Error("a folder is read")
	}
}

// Of a long table lines are left out evenly, and never the first or the last.
func TestReadThins(t *testing.T) {
	defer func(n int) { most = n }(most)
	most = 16
	text := "step,loss\n"
	for step := 1; step <= 200; step++ {
		text += fmt.Sprintf("%d,%d\n", step, 2*step)
		l, err := Read(write(t, text))
		steps := l.Values["step"]
		if err != nil || len(steps) > most+1 || len(steps) < min(step, most/2) {
			t.Fatalf("of %d lines %d are kept, error %v; want %d to %d", step, len(steps), err, most/2, most+1)
		}
		if steps[0] != 1 || steps[len(steps)-1] != float64(step) {
			t.Fatalf("of %d lines %v are kept: not the first and the last", step, steps)
		}
		for n := 2; n < len(steps)-1; n++ {
			if steps[n]-steps[n-1] != steps[1]-steps[0] {
				t.Fatalf("of %d lines %v are kept: not evenly", step, steps)
			}
		}
		for n, v := range l.Values["loss"] {
			if v != 2*steps[n] {
				t.Fatalf("of %d lines: loss %g at step %g", step, v, steps[n])
			}
		}
	}
}
