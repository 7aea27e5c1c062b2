package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
)

// This file reads the labels of a dataset.json. What contradicts itself is refused: a label under a
// wrong name is learnt as what it is not.

// labelKeys are what a dataset.json says of labels.
type labelKeys struct {
	labels labelEntries
	order  []json.RawMessage // regions_class_order: of nnU-Net's regions; nil where it is not said
}

// labelEntries are the entries of an object, in their order: a map would keep one of two that have
// one key. Values are text, [json.Number], lists and the like.
type labelEntries []labelEntry

type labelEntry struct {
	key   string
	value any
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *labelEntries) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	start, err := d.Token()
	if err != nil {
		return err
	}
	if start == nil {
		return nil
	}
	if start != json.Delim('{') {
		kind := "text, a number or a truth value"
		if start == json.Delim('[') {
			kind = "array"
		}
		return &json.UnmarshalTypeError{Value: kind, Type: reflect.TypeFor[map[string]any]()}
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		e := labelEntry{key: key.(string)}
		if err := d.Decode(&e.value); err != nil {
			return err
		}
		*l = append(*l, e)
	}
	return nil
}

// isLabel says whether an entry is a number and a name.
func (e labelEntry) isLabel() bool {
	_, key := labelNumber(e.key)
	_, value := labelNumber(e.value)
	return key || value
}

// numeral is a number as people write labels.
var numeral = regexp.MustCompile(`^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$`)

// labelNumber is a label that JSON has as a number or as text.
func labelNumber(value any) (label float64, isNumber bool) {
	text := ""
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	}
	if !numeral.MatchString(text) {
		return 0, false
	}
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil
}

// backgrounds are names of what has no label.
var backgrounds = strings.Fields("background bg none unlabeled unlabelled air " +
	"void clearlabel other outside exterior rest")

// nameLabels takes the names of a dataset.json: number: name, as in MSD and the first version of
// nnU-Net, name: number as in its second, or name: [numbers] where labels are regions made of
// others. Numbers may be text. An error names the file and what contradicts itself.
func (d *Dataset) nameLabels(path string, keys labelKeys) error {
	wrong := func(format string, args ...any) error {
		return &volume.FormatError{Path: path, Problem: fmt.Sprintf(format, args...)}
	}
	names, seen := map[uint16]string{}, map[string]uint16{} // seen: the names that are keys
	// where there are regions, labels of their own count among these
	regions, foreground := 0, 0
	for _, e := range keys.labels {
		number, name := e.value, e.key
		if parts, list := e.value.([]any); list {
			regions, foreground = regions+1, foreground+1
			d.note("dataset.json makes %q a region of several labels: labels are taken as they are in the files",
				e.key)
			for _, part := range parts {
				label, err := wholeLabel(part)
				if err != nil {
					text, _ := json.Marshal(part)
					return wrong("region %q is made of %s: %v", e.key, text, err)
				}
				if label > 0 {
					d.addRegion(label)
				}
			}
			continue
		}
		text, isText := e.value.(string)
		keyNumber, keyIsNumber := labelNumber(e.key)
		valueNumber, valueIsNumber := labelNumber(e.value)
		switch {
		case isText && keyIsNumber: // as in MSD; a name may be a number, too
			number, name = e.key, text
		case keyIsNumber && valueIsNumber && keyNumber != valueNumber:
			return wrong("label %q has the number %v: one of the two must be a name", e.key, e.value)
		case isText && !valueIsNumber:
			return wrong("labels has %q: %q, and neither is a number", e.key, text)
		case !valueIsNumber:
			text, _ := json.Marshal(e.value) // as the file has it
			return wrong("label %q has no number, but %s", e.key, text)
		}
		label, err := wholeLabel(number)
		if err != nil {
			return wrong("label %q has the number %v: %v", name, number, err)
		}
		if other, twice := names[label]; twice && other != name {
			return wrong("label %d is %q and %q: give each structure a number of its own", label, other, name)
		}
		if other, twice := seen[name]; twice && other != label && name == e.key {
			return wrong("%q is label %d and label %d: give it one number", name, other, label)
		}
		names[label], seen[name] = name, label
		isBackground := safetext.Fold(name) == backgrounds[0]
		switch {
		case isBackground && label != 0:
			return wrong("background is label %d, but voxels without a label are 0: correct the names, "+
				"or exchange the numbers here and in the labels", label)
		case label == 0 && name != "" && !slices.Contains(backgrounds, safetext.Fold(name)):
			d.note("dataset.json calls 0 %q: its voxels are background all the same", name)
		}
		// labels without names are said to be so where they are prepared
		if label == 0 || name == "" {
			continue
		}
		if name == volume.IgnoreName {
			d.note("dataset.json has label %d for voxels to ignore: losses and scores leave them out; "+
				"--relabel %[1]d:0 makes them background", label)
		} else {
			foreground++
		}
		d.nameLabel(label, name)
	}
	d.noteSharedNames(names)
	if regions > 0 && keys.order != nil && len(keys.order) != foreground {
		d.note("dataset.json has %s and %s in regions_class_order, which must be as many: "+
			"labels are taken as they are in the files",
			numbers.Count(foreground, "region"), numbers.Count(len(keys.order), "number"))
	}
	return nil
}

// noteSharedNames names labels that have one name.
func (d *Dataset) noteSharedNames(names map[uint16]string) {
	called := map[string][]uint16{}
	for _, label := range slices.Sorted(maps.Keys(names)) {
		if name := safetext.Fold(names[label]); name != "" && label > 0 {
			called[name] = append(called[name], label)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(called)) {
		if labels := called[name]; len(labels) > 1 {
			d.note("dataset.json calls labels %s all %q: they stay labels of their own", safetext.Numbers(labels),
				names[labels[0]])
		}
	}
}

// wholeLabel is the number of a label.
func wholeLabel(value any) (uint16, error) {
	x, ok := labelNumber(value)
	if !ok || x != math.Trunc(x) || x < 0 || x > math.MaxUint16 {
		return 0, fmt.Errorf("labels are whole numbers from 0 to %d", math.MaxUint16)
	}
	return uint16(x), nil
}

// readNames reads the names of labels from the dataset.json that may lie in a tree of scans.
func (d *Dataset) readNames(root string) error {
	var file struct {
		Labels json.RawMessage `json:"labels"` // of other programs, it may be something else
	}
	path := filepath.Join(root, "dataset.json")
	if _, err := readJSON(path, &file); err != nil {
		return err
	}
	var keys labelKeys
	if json.Unmarshal(file.Labels, &keys.labels) != nil || !slices.ContainsFunc(keys.labels, labelEntry.isLabel) {
		return nil
	}
	return d.nameLabels(path, keys)
}

// readLookup takes the names of labels from a table of BIDS, *_dseg.tsv, with the columns index and
// name. One number of two names is noted.
func (d *Dataset) readLookup(path string) error {
	text, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return err
	}
	rows, _, err := table(text, '\t')
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, row := range rows {
		label, err := strconv.ParseUint(row["index"], 10, 16)
		if name := row["name"]; err == nil && label > 0 && name != "" {
			if other := d.LabelNames[uint16(label)]; other != "" && safetext.Fold(other) != safetext.Fold(name) {
				return fmt.Errorf("%s: label %d is %q here and %q elsewhere: such cases must not be used together",
					path, label, name, other)
			}
			d.nameLabel(uint16(label), name)
		}
	}
	return nil
}

// nnUNetKeys are what the dataset.json of nnU-Net's second version has, and no other.
type nnUNetKeys struct {
	Channels map[string]any `json:"channel_names"`
	Ending   string         `json:"file_ending"`
}

// given says whether a dataset.json has any of them.
func (k nnUNetKeys) given() bool { return k.Channels != nil || k.Ending != "" }
