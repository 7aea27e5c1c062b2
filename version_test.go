package voxsaw

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

const commit = "abcdef123456abcdef123456abcdef123456abcd"

// Builds as Go 1.24 and later record them: of a tag, of a commit, of a tree with changes, without
// version control, by go install of a released version, and as a part of another program.
func TestVersionOfBuilds(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit},
			{Key: "vcs.time", Value: "2026-11-22T13:33:00Z"}, {Key: "vcs.modified", Value: modified}}
	}
	ours := func(version string) debug.Module { return debug.Module{Path: path, Version: version} }
	for name, c := range map[string]struct {
		info    debug.BuildInfo
		version string
		source  []string
	}{
		"a tag": {debug.BuildInfo{Main: ours("v0.3.0"), Settings: vcs("false")}, "v0.3.0",
			[]string{"commit abcdef123456", "2026-11-22"}},
		"changes": {debug.BuildInfo{Main: ours("v0.3.1-0.20261122133300-abcdef123456+dirty"),
			Settings: vcs("true")}, "v0.3.1-0.20261122133300-abcdef123456+dirty",
			[]string{"commit abcdef123456 with changes", "2026-11-22"}},
		"no version, a tree": {debug.BuildInfo{Main: ours("(devel)"), Settings: vcs("true")},
			"devel-abcdef123456+dirty", []string{"commit abcdef123456 with changes", "2026-11-22"}},
		"nothing recorded": {debug.BuildInfo{Main: ours("(devel)")}, "devel", nil},
		"go install":       {debug.BuildInfo{Main: ours("v0.3.0")}, "v0.3.0", nil},
		"another program": {debug.BuildInfo{Main: debug.Module{Path: "example.org/other", Version: "v9.0.0"},
			Settings: vcs("false"),
			Deps:     []*debug.Module{{Path: path, Version: "v0.3.0"}}}, "v0.3.0", nil},
		"no trace of us": {debug.BuildInfo{Main: debug.Module{Path: "example.org/other"}}, "unknown", nil},
	} {
		if got := version(&c.info); got != c.version {
			t.Errorf("%s: version %q, want %q", name, got, c.version)
		}
		if got := built(&c.info).source(); !slices.Equal(got, c.source) {
			t.Errorf("%s: source %q, want %q", name, got, c.source)
		}
	}
}

func TestAboutIsOneLine(t *testing.T) {
	got := About()
	if !regexp.MustCompile(`^\S+ \(.+\)$`).MatchString(got) || strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
	for _, want := range []string{runtime.GOOS + "/" + runtime.GOARCH, runtime.Version(), Version()} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
