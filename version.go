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
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return version(info)
}

// About is a line for a person: the version, what else the build recorded about its source, and
// what it was built for, such as
//
//	v0.3.0 (commit abcdef123456, 2026-11-22, linux/amd64, go1.26)
func About() string {
	var facts []string
	v := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		v, facts = version(info), source(info)
	}
	facts = append(facts, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
	return fmt.Sprintf("%s (%s)", v, strings.Join(facts, ", "))
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
func source(info *debug.BuildInfo) (facts []string) {
	s := settings(info)
	if info.Main.Path != path || s["vcs.revision"] == "" {
		return nil
	}
	commit := "commit " + short(s["vcs.revision"])
	if s["vcs.modified"] == "true" {
		commit += " with changes"
	}
	facts = append(facts, commit)
	if day, _, ok := strings.Cut(s["vcs.time"], "T"); ok {
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
