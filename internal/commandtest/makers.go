package commandtest

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
)

// phantomMain is the scripts' command phantom [flags] FOLDER, which writes scans.
func phantomMain() {
	var o miniature.ScanOptions
	flag.IntVar(&o.Cases, "cases", 2, "")
	flag.IntVar(&o.Labelled, "labelled", 0, "")
	flag.StringVar(&o.Format, "format", "", "")
	flag.BoolVar(&o.Empty, "empty", false, "")
	flag.BoolVar(&o.Moved, "moved", false, "")
	flag.BoolVar(&o.Thick, "thick", false, "")
	flag.IntVar(&o.Around, "around", 0, "")
	flag.StringVar(&o.Axcodes, "axcodes", "RAS", "")
	flag.StringVar(&o.Hostile, "hostile", "", "")
	flag.BoolVar(&o.MR, "mr", false, "")
	flag.IntVar(&o.First, "first", 0, "")
	flag.Parse()
	if err := miniature.Scans(flag.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pascalMain is the command pascal of the scripts: it makes a data set in Pascal VOC's layout.
func pascalMain() {
	o := voctest.Options{Side: 64, Seed: 1}
	flag.IntVar(&o.Train, "train", 8, "photographs of the side train")
	flag.IntVar(&o.Val, "val", 4, "photographs of the side val")
	flag.IntVar(&o.Test, "test", 4, "photographs of the side test")
	flag.Parse()
	if err := voctest.Write(flag.Arg(0), o); err != nil {
		log.Fatal(err)
	}
}

// picturesMain is the command pictures of the scripts: it writes JPEGs, each a pattern of its own,
// into folders.
func picturesMain() {
	count := flag.Int("count", 10, "pictures a folder")
	odd := flag.String("odd", "", "folder for pictures of which some cannot be read")
	flag.Parse()
	if *odd != "" {
		if err := miniature.OddPictures(*odd); err != nil {
			log.Fatal(err)
		}
	}
	for n, folder := range flag.Args() {
		for k := range *count {
			if err := miniature.Picture(filepath.Join(folder, fmt.Sprintf("%03d.jpg", k)), 1000*n+k); err != nil {
				log.Fatal(err)
			}
		}
	}
}
