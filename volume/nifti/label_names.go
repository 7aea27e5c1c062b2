package nifti

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/volume"
)

// NIfTI has no place for the names of labels. [WriteLabels] writes them as a comment of the header,
// which other programs pass over: JSON such as {"program": "voxsaw", "labels": {"1": "liver"}}.

const (
	// commentCode is NIFTI_ECODE_COMMENT: plain text
	commentCode = 6
	programName = "voxsaw"
)

type namesComment struct {
	Program string            `json:"program"`
	Labels  map[uint16]string `json:"labels"`
}

// LabelNames returns the names of labels that [WriteLabels] put into the header; nil for none.
func (h *Header) LabelNames() map[uint16]string {
	for _, e := range h.Extensions {
		if names := e.labelNames(); names != nil {
			return names
		}
	}
	return nil
}

func (e Extension) labelNames() map[uint16]string {
	var c namesComment
	if e.Code != commentCode || json.Unmarshal(bytes.TrimRight(e.Data, "\x00 "), &c) != nil ||
		c.Program != programName || len(c.Labels) == 0 {
		return nil
	}
	return c.Labels
}

// withNames returns the extensions with the names of labels in place of those that they have. Of a
// map without names they stay as they are.
func withNames(l *volume.LabelMap, extensions []Extension) ([]Extension, error) {
	if len(l.Names) == 0 {
		return extensions, nil
	}
	names := maps.Clone(l.Names)
	maps.DeleteFunc(names,
		func(label uint16, name string) bool { return name == "" || name == strconv.Itoa(int(label)) })
	if len(names) == 0 {
		return extensions, nil
	}
	data, err := json.Marshal(namesComment{programName, names})
	if err != nil {
		return nil, err
	}
	others := slices.DeleteFunc(slices.Clone(extensions), func(e Extension) bool { return e.labelNames() != nil })
	return append(others, Extension{Code: commentCode, Data: data}), nil
}
