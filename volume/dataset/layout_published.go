package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/standin"
	"github.com/voxsaw/voxsaw/volume"
)

// This file reads the three published layouts. What is on disk counts; a dataset.json adds names,
// and what it says otherwise is noted.

var (
	nihImage      = regexp.MustCompile(`(?i)^pancreas_(\d{4})(\.nii(\.gz)?)?$`)
	nihLabel      = regexp.MustCompile(`(?i)^label(\d{4})\.nii(\.gz)?$`)
	channelSuffix = regexp.MustCompile(`_(\d{4})$`)
)

// nihRepeats are the cases of NIH Pancreas-CT that repeat the scan of case nihRepeated, as the
// collection's page says.
var nihRepeats = []int{25, 70}

const nihRepeated = 2

// nihPatient is what case 2 and its repeats have in common.
const nihPatient = "NIH Pancreas-CT, case 2"

// nihName is the name of a case of NIH Pancreas-CT.
var nihName = regexp.MustCompile(`^PANCREAS_\d{4}$`)

// repeatsOneScan says whether a case number of NIH Pancreas-CT is one of those with one scan.
func repeatsOneScan(number int) bool {
	return number == nihRepeated || slices.Contains(nihRepeats, number)
}

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
			if !entry.IsDir() && isVoxels(name) {
				inside[folder] = append(inside[folder], path)
			}
		case nihImage.MatchString(name) && (entry.IsDir() || isVoxels(name)):
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
			refused = &volume.UnsupportedError{Path: image, Problem: fmt.Sprintf("holds %d NIfTI files, such as %s and %s: leave the scan alone there", len(files), files[0], files[1])}
		}
		if slices.Contains(nihRepeats, number) {
			repeats++
			if o.WithoutRepeats {
				delete(labels, number)
				continue
			}
		}
		d.Cases = append(d.Cases, Case{ID: fmt.Sprintf("PANCREAS_%04d", number), Image: image, Labels: labels[number], ByIndex: true, refused: refused})
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
		d.note("%d cases, with cases 25 and 70, which repeat the scan of case 2: --without-repeats leaves them out", len(d.Cases))
	}
	return d, nil
}

// holdsDICOM says whether anything in a folder is DICOM, or has the name of a slice. What else lies
// beside a scan, such as the .json of dcm2niix, is neither.
func holdsDICOM(folder string) bool {
	series, passed, err := scanDICOM(folder)
	return err != nil || len(series) > 0 || len(passedOver(passed)) > 0
}

// A part of a published data set is a folder of images and one of their labels: files by their
// stems.
type part struct {
	name           string // the group of its cases
	images, labels map[string]string
}

// heldBack are the endings of folders of images that a data set keeps for testing.
var heldBack = []string{"Ts", "Te", "Test", "Va", "Val"}

// parts lists what imagesTr and labelsTr hold, and the folders beside these: imagesTs and the like
// are for testing, and so is any other pair of imagesXx and labelsXx. Scans elsewhere, in other
// folders or in none, are added as cases without labels.
func (d *Dataset) parts(root string, o Options) ([]part, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var parts []part
	var beside []string
	loose, folders := false, []string{}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		stat, err := os.Stat(path)
		if e.Name()[0] == '.' || e.Name() == "__MACOSX" || err != nil {
			continue
		}
		if !stat.IsDir() {
			loose = loose || isVoxels(path)
			continue
		}
		folders = append(folders, path)
		ending, images := strings.CutPrefix(e.Name(), "images")
		if _, labels := strings.CutPrefix(e.Name(), "labels"); labels {
			continue
		}
		labels := filepath.Join(root, "labels"+ending)
		_, noLabels := os.Stat(labels)
		if !images || ending != "Tr" && noLabels != nil && !slices.Contains(heldBack, ending) {
			beside = append(beside, path)
			continue
		}
		p := part{}
		if ending != "Tr" {
			p.name = GroupTest
		}
		if p.images, err = d.listNIfTI(path); err != nil {
			return nil, err
		}
		if p.labels, err = d.listNIfTI(labels); err != nil {
			return nil, err
		}
		dropPredictedLabels(d, p.labels, o)
		if p.name != "" && ending != "Ts" && len(p.images) > 0 {
			d.note("%s: %s, held back for testing", path, numbers.Count(len(p.images), "scan"))
		}
		parts = append(parts, p)
	}
	// imagesTr first, as its cases are named first
	slices.SortStableFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	for _, path := range beside {
		if err := d.addBeside(path, source{root: root}, o); err != nil {
			return nil, err
		}
	}
	if loose {
		if err := d.addBeside(root, source{root: root, without: folders, noSeries: true}, o); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// addBeside adds scans that lie beside imagesTr, in a folder of the source or in the source itself:
// as cases without labels, because nobody says that labels there mean the same.
func (d *Dataset) addBeside(folder string, from source, o Options) error {
	more, _, err := readTree(folder, from, o)
	if err != nil {
		return err
	}
	var unused []string
	for n := range more.Cases {
		c := &more.Cases[n]
		if m := channelSuffix.FindStringSubmatch(c.ID); m != nil {
			if m[1] != "0000" {
				return fmt.Errorf("%s has another channel than the first, _0000: only scans of one channel can be used beside imagesTr", c.Image)
			}
			c.ID = strings.TrimSuffix(c.ID, m[0])
		}
		if c.Labels != "" {
			unused = append(unused, c.Labels)
			c.withoutLabels()
		}
		if c.Group == "" {
			c.Volume = o.Volume
		}
	}
	if len(more.Cases) > 0 {
		d.note("%s: %s without labels beside imagesTr: used where no labels are needed", folder, numbers.Count(len(more.Cases), "scan"))
	}
	d.Cases, d.Notes = append(d.Cases, more.Cases...), append(d.Notes, more.Notes...)
	d.PassedOver, d.Unused, d.masks = append(d.PassedOver, more.PassedOver...), slices.Concat(d.Unused, more.Unused, unused), append(d.masks, more.masks...)
	d.predicted = append(d.predicted, more.predicted...)
	return nil
}

// readMSD reads imagesTr, labelsTr, imagesTs (and labelsTs, where somebody has them) and the names
// of the labels.
func readMSD(root string, o Options) (*Dataset, error) {
	d := &Dataset{}
	parts, err := d.parts(root, o)
	if err != nil {
		return nil, err
	}
	for _, group := range parts {
		images, labels := group.images, group.labels
		for _, stem := range slices.Sorted(maps.Keys(images)) {
			image := images[stem]
			d.Cases = append(d.Cases, Case{ID: stem, Group: group.name, Image: image, Labels: labels[stem]})
			if group.name == "" && labels[stem] == "" {
				d.note("%s has no labels", image)
			}
			delete(labels, stem)
		}
		for _, stem := range slices.Sorted(maps.Keys(labels)) {
			d.withoutScan(labels[stem])
		}
	}
	var file struct {
		Labels   labelEntries      `json:"labels"`
		Order    []json.RawMessage `json:"regions_class_order"`
		Training []struct {
			Image string `json:"image"`
		} `json:"training"`
		nnUNetKeys
	}
	path := filepath.Join(root, "dataset.json")
	if found, err := readJSON(path, &file); !found || err != nil {
		return d, err
	}
	if err := d.nameLabels(path, labelKeys{file.Labels, file.Order}); err != nil {
		return nil, err
	}
	if file.given() && !slices.ContainsFunc(d.Cases, func(c Case) bool { return channelSuffix.MatchString(c.ID) }) {
		d.note("dataset.json is nnU-Net's, but no image has the number of a channel in its name, such as _0000: each file is taken for a scan, as in the Medical Segmentation Decathlon")
	}
	missing := 0
	for _, t := range file.Training {
		if !isFile(filepath.Join(root, filepath.FromSlash(t.Image))) {
			missing++
		}
	}
	if missing > 0 {
		d.note("dataset.json lists %s, not on disk", numbers.Count(missing, "training case"))
	}
	return d, nil
}

// nnUNetKeys are what the dataset.json of nnU-Net's second version has, and no other.
type nnUNetKeys struct {
	Channels map[string]any `json:"channel_names"`
	Ending   string         `json:"file_ending"`
}

// given says whether a dataset.json has any of them.
func (k nnUNetKeys) given() bool { return k.Channels != nil || k.Ending != "" }

// readNNUNet reads CASE_0000.nii.gz (the first channel, or the one of o.Volume) with
// labelsTr/CASE.nii.gz.
func readNNUNet(root string, o Options) (*Dataset, error) {
	d := &Dataset{}
	channel := max(o.Volume, 1) - 1
	parts, err := d.parts(root, o)
	if err != nil {
		return nil, err
	}
	for _, group := range parts {
		images, labels := group.images, group.labels
		channels := map[string][]int{}
		for _, stem := range slices.Sorted(maps.Keys(images)) {
			image := images[stem]
			m := channelSuffix.FindStringSubmatch(stem)
			if m == nil && labels[stem] != "" {
				return nil, fmt.Errorf("%s lacks the number of its channel: rename it to %s", image, strings.Replace(filepath.Base(image), stem, stem+"_0000", 1))
			}
			if m == nil {
				d.note("%s has no channel in its name, such as _0000: passed over", image)
				continue
			}
			number, _ := strconv.Atoi(m[1])
			id := strings.TrimSuffix(stem, m[0])
			if labels[stem] != "" && labels[id] == "" {
				return nil, fmt.Errorf("%s ends in the number of a channel, which labels have none of: rename it to %s", labels[stem], strings.Replace(filepath.Base(labels[stem]), stem, id, 1))
			}
			channels[id] = append(channels[id], number)
		}
		for _, id := range slices.Sorted(maps.Keys(channels)) {
			found := channels[id]
			if o.Volume == 0 && len(found) > 1 {
				return nil, fmt.Errorf("case %s has %d channels: choose one with --volume, or say --layout scans if these are numbers of cases", id, len(found))
			}
			image := images[fmt.Sprintf("%s_%04d", id, channel)]
			if image == "" {
				return nil, fmt.Errorf("case %s has no channel %d", id, channel+1)
			}
			d.Cases = append(d.Cases, Case{ID: id, Group: group.name, Image: image, Labels: labels[id]})
			if group.name == "" && labels[id] == "" {
				d.note("%s has no labels", image)
			}
			delete(labels, id)
		}
		for _, stem := range slices.Sorted(maps.Keys(labels)) {
			d.withoutScan(labels[stem])
		}
	}
	var file struct {
		Labels labelEntries      `json:"labels"`
		Order  []json.RawMessage `json:"regions_class_order"`
		nnUNetKeys
	}
	path := filepath.Join(root, "dataset.json")
	if found, err := readJSON(path, &file); !found || err != nil {
		return d, err
	}
	if err := d.nameLabels(path, labelKeys{file.Labels, file.Order}); err != nil {
		return nil, err
	}
	if file.Ending != "" && !isVoxels("x"+file.Ending) {
		return nil, fmt.Errorf("its files end in %s: only NIfTI is read", file.Ending)
	}
	return d, nil
}

func (d *Dataset) addRegion(label uint16) {
	if d.regions == nil {
		d.regions = map[uint16]bool{}
	}
	d.regions[label] = true
}

func (d *Dataset) nameLabel(label uint16, name string) {
	if d.LabelNames == nil {
		d.LabelNames = map[uint16]string{}
	}
	d.LabelNames[label] = name
}

// readJSON decodes a file that may be missing.
func readJSON(path string, value any) (found bool, err error) {
	data, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if what := standin.What(data); what != "" {
		return false, &volume.FormatError{Path: path, Problem: what}
	}
	if data, err = utf8JSON(data); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if err := explainJSON(data, json.Unmarshal(data, value)); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// utf8JSON is JSON without the byte order mark that some editors of Windows put before it. Text in
// other encodings is refused: names in it would be learnt as what they are not.
func utf8JSON(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	start := string(data[:min(len(data), 2)])
	switch {
	case start == "\xff\xfe" || start == "\xfe\xff" || start == "{\x00" || start == "\x00{":
		return nil, errors.New("is UTF-16, and JSON is UTF-8: save it as UTF-8")
	case !utf8.Valid(data):
		line := 1
		for text := range bytes.Lines(data) {
			if !utf8.Valid(text) {
				break
			}
			line++
		}
		return nil, fmt.Errorf("line %d is not UTF-8, and JSON is: save it as UTF-8", line)
	}
	return data, nil
}

// explainJSON turns an error of encoding/json into one for people who wrote the file: with the
// line, and in the file's own words.
func explainJSON(data []byte, err error) error {
	line := func(offset int64) int { return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")) }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("is not JSON, line %d: %w", line(syntax.Offset), err)
	case errors.As(err, &kind):
		expected := map[reflect.Kind]string{reflect.Map: "an object", reflect.Struct: "an object", reflect.Slice: "a list", reflect.String: "a text"}[kind.Type.Kind()]
		what := "the whole"
		if kind.Field != "" {
			what = strconv.Quote(kind.Field)
		}
		return fmt.Errorf("line %d: %s must be %s, not %s", line(kind.Offset), what, expected, kind.Value)
	}
	return err
}
