// Package voxsaw is what the parts of the library have in common: a device to compute on, the
// settings of a network and of a training, who watches a training and what it leaves behind.
//
// Start at [Open], which gives a device. Package [github.com/voxsaw/voxsaw/puzzle3d] pretrains on it,
// package [github.com/voxsaw/voxsaw/segment] fine-tunes and makes label maps; both read the prepared
// cases of package [github.com/voxsaw/voxsaw/volume/prepared], which package
// [github.com/voxsaw/voxsaw/volume/dataset] makes of scans. Package
// [github.com/voxsaw/voxsaw/eval] says how good the label maps are.
//
// Nothing is computed here. The command line is ./cmd/voxsaw.
package voxsaw

import "runtime/debug"

// path is the module's, by which its version is found in a program that uses it.
const path = "github.com/voxsaw/voxsaw"

// Version is that of the module: a release, or the commit that the program was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
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
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			v += "-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			v += "-modified"
		}
	}
	return v
}
