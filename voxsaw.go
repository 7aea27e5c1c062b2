// Package voxsaw is what the parts of the library have in common: a device to compute on, the
// settings of a network and of a training, who watches a training and what it leaves behind.
//
// Start at [Open], which gives a device. Package [github.com/voxsaw/voxsaw/puzzle3d] pretrains on
// it, package [github.com/voxsaw/voxsaw/segment] fine-tunes and makes label maps; both read the
// prepared cases of package [github.com/voxsaw/voxsaw/volume/prepared], which package
// [github.com/voxsaw/voxsaw/volume/dataset] makes of scans. Package [github.com/voxsaw/voxsaw/eval]
// says how good the label maps are.
//
// Nothing is computed here. The command line is package cli.
package voxsaw
