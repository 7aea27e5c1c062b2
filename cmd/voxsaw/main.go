// Command voxsaw pretrains 3D networks on unlabelled CT by solving jigsaw puzzles, fine-tunes them
// for organ segmentation and reports Dice fold by fold.
//
// All of it is package [github.com/voxsaw/voxsaw/cli], which programs of other modules call, too.
package main

import "github.com/voxsaw/voxsaw/cli"

func main() { cli.Main() }
