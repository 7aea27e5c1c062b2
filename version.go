package voxsaw

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// path is the module's, by which its version is found in a program that uses it.
const path = "github.com/voxsaw/voxsaw"

// Version is that of the module: a release such as v0.3.0, or Go's pseudo-version of the commit
// that the program was built from. It is "devel" where the build recorded neither.
func Version() string { return BuiltFrom().Version }

// Build is what a program that has this package was built from, and for what.
type Build struct {
	Version  string   `json:"version"`            // as [Version]
	Commit   string   `json:"commit,omitempty"`   // empty where the build recorded none
	Date     string   `json:"date,omitempty"`     // of the commit, in RFC 3339
	Modified bool     `json:"modified,omitempty"` // the checkout had changes
	OS       string   `json:"os"`                 // as GOOS
	Arch     string   `json:"arch"`               // as GOARCH
	Go       string   `json:"go"`                 // version of Go
	Tags     []string `json:"tags"`               // of the build, such as gpu and mpi
}

// BuiltFrom tells what the running program was built from.
func BuiltFrom() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return built(info)
}

func built(info *debug.BuildInfo) Build {
	b := Build{Version: version(info), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Tags: []string{}}
	s := settings(info)
	if s["-tags"] != "" {
		b.Tags = strings.Split(s["-tags"], ",")
	}
	if info.Main.Path == path {
		b.Commit, b.Date, b.Modified = s["vcs.revision"], s["vcs.time"], s["vcs.modified"] == "true"
	}
	return b
}

// About is a line for a person: the version, what else the build recorded about its source, and
// what it was built for, such as
//
//	v0.3.0 (commit abcdef123456, 2026-11-22, linux/amd64, go1.26)
func About() string {
	b := BuiltFrom()
	return fmt.Sprintf("%s (%s)", b.Version, strings.Join(append(b.source(), b.OS+"/"+b.Arch, b.Go), ", "))
}

// version is the module's, whether it is the program's own module or one that the program requires.
func version(info *debug.BuildInfo) string {
	if info.Main.Path != path {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v := "devel"
	if s := settings(info); s["vcs.revision"] != "" {
		v += "-" + short(s["vcs.revision"])
		if s["vcs.modified"] == "true" {
			v += "+dirty"
		}
	}
	return v
}

// source is the commit and its date, where the program was built in a checkout of this module and
// Go recorded them.
func (b Build) source() (facts []string) {
	if b.Commit == "" {
		return nil
	}
	commit := "commit " + short(b.Commit)
	if b.Modified {
		commit += " with changes"
	}
	facts = append(facts, commit)
	if day, _, ok := strings.Cut(b.Date, "T"); ok {
		facts = append(facts, day)
	}
	return facts
}

func settings(info *debug.BuildInfo) map[string]string {
	s := map[string]string{}
	for _, x := range info.Settings {
		s[x.Key] = x.Value
	}
	return s
}

// short is a commit as Go's pseudo-versions write it.
func short(commit string) string { return commit[:min(len(commit), 12)] }
