package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// follow runs the tests of a module of its own, and gives what the check says of them.
func follow(t *testing.T, source string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.org/m\n\ngo 1.26\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\n" + source,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	events, err := cmd.Output() // fails where a test does
	if len(events) == 0 {
		t.Fatal("go test wrote nothing: ", err)
	}
	var to strings.Builder
	c := newCheck(&to)
	if err := c.read(strings.NewReader(string(events))); err != nil {
		t.Fatal(err)
	}
	well := c.close()
	return to.String(), well
}

func TestCheck(t *testing.T) {
	t.Setenv("VOXSAW_DATA", "")
	for name, c := range map[string]struct {
		source string
		well   bool
		say    []string
		not    string
	}{
		"passes": {
			source: "func TestA(t *testing.T) { t.Log(\"quiet\") }\n",
			well:   true, say: []string{"ok  \texample.org/m"}, not: "quiet",
		},
		"fails": {
			source: "func TestA(t *testing.T) { t.Error(\"no good\") }\nfunc " +
				"TestB(t *testing.T) { t.Log(\"quiet\") }\n",
			say: []string{"no good", "--- FAIL: TestA"}, not: "quiet",
		},
		"skips": {
			source: "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { t.Run(\"part\", func(t " +
				"*testing.T) { t.Skip(\"no tool here\") }) }\n",
			say: []string{"SKIPPED: example.org/m TestB/part", "no tool here", "did not: 1"},
		},
		"skips without real scans": {
			source: "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { t.Skip(\"VOXSAW_DATA is unset\") }\n",
			well:   true, say: []string{"skipped: example.org/m TestB: there are no real scans here"},
		},
		"runs nothing":     {source: "func Help(t *testing.T) {}\n", say: []string{"no test ran"}},
		"does not compile": {source: "func TestA(t *testing.T) { nothing() }\n", say: []string{"undefined: nothing"}},
		"panics": {source: "func TestA(t *testing.T) { panic(\"all is lost\") }\n",
			say: []string{"all is lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, well := follow(t, c.source)
			if well != c.well {
				t.Errorf("well: %v\n%s", well, got)
			}
			for _, want := range c.say {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
			if c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("%q is in\n%s", c.not, got)
			}
		})
	}
}

// A reason that was allowed for one cause is not for another, and real scans that are there are
// read.
func TestAllowed(t *testing.T) {
	t.Setenv("VOXSAW_DATA", "somewhere")
	for _, s := range []skip{
		{test{module + "internal/folders", "TestWalkGoesOnBehindALockedFolder"}, "no locks here"},
		{test{module + "volume", "TestWalkGoesOnBehindALockedFolder"}, "nothing is locked for root"},
		{test{module + "volume/dicom", "TestReal"}, "VOXSAW_DATA is unset"},
		{test{module + "internal/device/cuda", "TestDevice/fp32,_seed_1/TestDevice/Images"},
			"pooling of regions is not on this device yet"},
	} {
		if why := allowed(s); why != "" {
			t.Errorf("%v is allowed: %s", s, why)
		}
	}
	if allowed(skip{test{module + "internal/folders", "TestWalkGoesOnBehindALockedFolder"},
		"nothing is locked for root"}) == "" {
		t.Error("what root cannot test is not allowed")
	}
}
