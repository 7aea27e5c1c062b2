package dataset

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: NIH Pancreas-CT.

var (
	nihImage      = regexp.MustCompile(`(?i)^pancreas_(\d{4})(\.nii(\.gz)?)?$`)
	nihLabel      = regexp.MustCompile(`(?i)^label(\d{4})\.nii(\.gz)?$`)
	channelSuffix = regexp.MustCompile(`_(\d{4})$`)
)

// nihRepeats are the cases of NIH Pancreas-CT that repeat the scan of case nihRepeated, as the
// collection's page says.
var nihRepeats = []int{25, 70}

const nihRepeated = 2

// readNIH pairs PANCREAS_00XX, a folder with a DICOM series or else one NIfTI file somewhere below
// it, or such a file, with label00XX.nii.gz, wherever they lie. The headers of the two disagree, so
// that labels go by index.
func readNIH(root string, o Options) (*Dataset, error) {
	d := &Dataset{LabelNames: map[uint16]string{1: "pancreas"}}
	images, labels := map[int]string{}, map[int]string{}
	collect := func(found map[int]string, name *regexp.Regexp, path string) error {
		number, _ := strconv.Atoi(name.FindStringSubmatch(filepath.Base(path))[1])
		if other := found[number]; other != "" {
			return fmt.Errorf("%s and %s have the same number", other, path)
		}
		found[number] = path
		return nil
	}
	// the PANCREAS folder that is walked, and the NIfTI files in each
	folder, inside := "", map[string][]string{}
	look := func(path string, entry fs.FileInfo, err error) error {
		if err != nil {
			d.note("passed over: %v", err)
			return nil
		}
		switch name := entry.Name(); {
		case !entry.IsDir() && nihLabel.MatchString(name):
			return collect(labels, nihLabel, path)
		case folder != "" && strings.HasPrefix(path, folder+string(filepath.Separator)):
			if !entry.IsDir() && format.IsName(name) {
				inside[folder] = append(inside[folder], path)
			}
		case nihImage.MatchString(name) && (entry.IsDir() || format.IsName(name)):
			if entry.IsDir() {
				folder = path
			}
			return collect(images, nihImage, path)
		}
		return nil
	}
	err := walk(root, look)
	if err == nil && o.Labels != "" {
		err = walk(o.Labels, look)
	}
	if err != nil {
		return nil, err
	}
	dropPredictedLabels(d, labels, o)
	repeats, labelled := 0, len(labels) > 0
	for _, number := range slices.Sorted(maps.Keys(images)) {
		image := images[number]
		var refused error
		switch files := inside[image]; {
		case len(files) == 0 || holdsDICOM(image):
		case len(files) == 1:
			image = files[0]
		default:
			refused = &volume.UnsupportedError{Path: image,
				Problem: fmt.Sprintf("holds %d NIfTI files, such as %s and %s: leave the scan alone there", len(files),
					files[0], files[1])}
		}
		if slices.Contains(nihRepeats, number) {
			repeats++
			if o.WithoutRepeats {
				delete(labels, number)
				continue
			}
		}
		d.Cases = append(d.Cases, Case{ID: fmt.Sprintf("PANCREAS_%04d", number), Image: image, Labels: labels[number],
			ByIndex: true, refused: refused})
		if labels[number] == "" && labelled {
			d.note("%s has no labels", image)
		}
		delete(labels, number)
	}
	for _, number := range slices.Sorted(maps.Keys(labels)) {
		d.withoutScan(labels[number])
	}
	switch {
	case o.WithoutRepeats:
		d.note("%d cases, without cases 25 and 70, which repeat the scan of case 2", len(d.Cases))
	case repeats > 0:
		d.note("%d cases, with cases 25 and 70, which repeat the scan of case 2: --without-repeats leaves them out",
			len(d.Cases))
	}
	return d, nil
}

// holdsDICOM says whether anything in a folder is DICOM, or has the name of a slice. What else lies
// beside a scan, such as the .json of dcm2niix, is neither.
func holdsDICOM(folder string) bool {
	series, passed, err := scanDICOM(folder)
	return err != nil || len(series) > 0 || len(passedOver(passed)) > 0
}
