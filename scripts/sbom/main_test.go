package main

import (
	"encoding/json"
	"regexp"
	"runtime/debug"
	"testing"
)

// A document holds the program, Go and every module, under the names that scanners look for. The
// official schema was tried by hand: docs/dependencies.md says how.
func TestBillHoldsEveryModule(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "example.com/program", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "github.com/a/B", Version: "v2.0.3+incompatible", Sum: "h1:abc="},
			{Path: "old", Version: "v1.0.0", Replace: &debug.Module{Path: "new", Version: "v1.1.0"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}},
	}
	d := bill(info, "program.exe", [32]byte{15: 0xff})
	want := []string{
		"pkg:golang/stdlib@1.26.8",
		"pkg:golang/github.com/a/B@v2.0.3%2Bincompatible",
		"pkg:golang/new@v1.1.0",
	}
	if len(d.Components) != len(want) {
		t.Fatalf("%d components, want %d", len(d.Components), len(want))
	}
	for n, c := range d.Components {
		if c.PURL != want[n] {
			t.Errorf("component %d is %s, want %s", n, c.PURL, want[n])
		}
	}
	if p := d.Components[1].Properties; len(p) != 1 || p[0].Value != "h1:abc=" {
		t.Errorf("the sum of a module is %v", p)
	}
	if !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{10}ff$`).
		MatchString(d.SerialNumber) {
		t.Errorf("the serial number is %s", d.SerialNumber)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var loose map[string]any
	if err := json.Unmarshal(text, &loose); err != nil || loose["bomFormat"] != "CycloneDX" {
		t.Errorf("%v, %s", err, text)
	}
}
