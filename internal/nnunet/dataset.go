package nnunet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
)

// ignored is nnU-Net's name of the label that no loss counts.
const ignored = "ignore"

// Structure is one output of the network: a label, or in region-based models a region, which is a
// union of labels.
type Structure struct {
	Name  string
	Label uint16 // that its voxels are written as
	// Union says that it is several labels: what is written as its label is the rest of it, where
	// no later region lies, and has no name of its own.
	Union bool
	of    string // the labels of a union, ascending, for whom to compare
}

// Labels are what a model's heads mean, as dataset.json says it.
type Labels struct {
	// Structures of the heads, in their order; the first is the background, where there are no
	// regions.
	Structures []Structure
	Regions    bool     // heads are regions, each with a probability of its own
	Channels   []string // names of the input's channels
}

// readLabels reads the dataset.json of a model.
func readLabels(path string) (*Labels, error) {
	var file struct {
		Labels   json.RawMessage `json:"labels"`
		Channels json.RawMessage `json:"channel_names"`
		Modality json.RawMessage `json:"modality"`
		Order    []uint16        `json:"regions_class_order"`
	}
	if err := readJSON(path, &file); err != nil {
		return nil, err
	}
	damaged := func(format string, args ...any) (*Labels, error) {
		return nil, &volume.FormatError{Path: path, Problem: fmt.Sprintf(format, args...)}
	}
	l := &Labels{}
	names, values, err := pairs(file.Labels)
	if err != nil || len(names) == 0 {
		return damaged("labels: want names with their numbers")
	}
	var regions [][]uint16
	for n, text := range values {
		if names[n] == ignored {
			continue
		}
		var one uint16
		var many []uint16
		if json.Unmarshal(text, &one) == nil {
			many = []uint16{one}
		} else if json.Unmarshal(text, &many) != nil || len(many) == 0 {
			return damaged("label %s is %s: want a number, or a list of them", names[n], text)
		}
		l.Regions = l.Regions || len(many) > 1
		regions = append(regions, many)
		l.Structures = append(l.Structures, Structure{Name: names[n], Label: many[0], Union: len(many) > 1,
			of: joined(many)})
	}
	if err := l.order(regions, file.Order); err != nil {
		return damaged("%v", err)
	}
	channels := file.Channels
	if channels == nil {
		channels = file.Modality
	}
	keys, values, err := pairs(channels)
	if err != nil {
		return damaged("channel_names: %v", err)
	}
	l.Channels = make([]string, len(keys))
	for n, text := range values {
		var at int
		if _, err := fmt.Sscan(keys[n], &at); err != nil || at < 0 || at >= len(keys) || l.Channels[at] != "" ||
			json.Unmarshal(text, &l.Channels[at]) != nil {
			return damaged("channel_names: channel %s is %s: want names of channels from 0 on", keys[n], text)
		}
	}
	return l, nil
}

// joined is labels as people write a union of them, such as 1+3, in one order.
func joined(labels []uint16) string {
	var all []string
	for _, label := range slices.Sorted(slices.Values(labels)) {
		all = append(all, strconv.Itoa(int(label)))
	}
	return strings.Join(all, "+")
}

// order brings the structures into the order of the heads.
func (l *Labels) order(regions [][]uint16, order []uint16) error {
	if !l.Regions {
		// heads are distinct labels, ascending
		slices.SortStableFunc(l.Structures, func(a, b Structure) int { return int(a.Label) - int(b.Label) })
		for n, s := range l.Structures {
			if int(s.Label) != n {
				return fmt.Errorf("labels are not numbered from 0 on without a gap: %s is %d, where %d is expected",
					s.Name, s.Label, n)
			}
		}
		return nil
	}
	// regions without the background, in the file's order; each is written as regions_class_order
	// says
	var heads []Structure
	for n, s := range l.Structures {
		if len(regions[n]) == 1 && regions[n][0] == 0 {
			continue
		}
		heads = append(heads, s)
	}
	if len(order) != len(heads) {
		return fmt.Errorf("regions_class_order has %d labels for %d regions", len(order), len(heads))
	}
	for n := range heads {
		heads[n].Label = order[n]
	}
	l.Structures = heads
	return nil
}

// Heads is the number of the network's classes.
func (l *Labels) Heads() int { return len(l.Structures) }

// Values are the labels that predictions may have, but for the background.
func (l *Labels) Values() (values []uint16) {
	for _, s := range l.Structures {
		if s.Label > 0 && !slices.Contains(values, s.Label) {
			values = append(values, s.Label)
		}
	}
	slices.Sort(values)
	return values
}

// Names are the names of the labels that predictions may have, as far as they have one.
func (l *Labels) Names() map[uint16]string {
	names := map[uint16]string{}
	for _, s := range l.Structures {
		if s.Label > 0 && !s.Union {
			names[s.Label] = s.Name
		}
	}
	return names
}

// pairs are the keys and values of an object, in its order, which json's maps forget.
func pairs(object json.RawMessage) (keys []string, values []json.RawMessage, err error) {
	if object == nil {
		return nil, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, fmt.Errorf("%.40s is no object", strings.TrimSpace(string(object)))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, nil, io.ErrUnexpectedEOF
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		if slices.Contains(keys, name) {
			return nil, nil, fmt.Errorf("%q comes twice", name)
		}
		keys, values = append(keys, name), append(values, value)
	}
	return keys, values, nil
}
