package cpu

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExtensions: what is asked of the machine is what the assembler says that the kernels require.
func TestExtensions(t *testing.T) {
	everywhere := map[string]bool{"SSE2": true, "MMX+": true} // on amd64
	required := regexp.MustCompile(`// func \w+(AVX512|AVX2)\(.*\n(?://.*\n)*?// Requires: (.*)\n`)
	files, err := filepath.Glob("*_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range required.FindAllSubmatch(source, -1) {
			set := strings.ToLower(string(m[1]))
			for _, name := range strings.Split(string(m[2]), ", ") {
				if _, asked := extensions[set][name]; !asked && !everywhere[name] {
					t.Errorf("%s: %s is required and not asked for: %s", file, name, m[0])
				}
				found[set+name] = true
			}
		}
	}
	for set, names := range extensions {
		for name := range names {
			if !found[set+name] {
				t.Errorf("%s: %s is asked for and not required", set, name)
			}
		}
	}
}
