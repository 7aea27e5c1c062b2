package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: entries of DICOM: series, SEG objects and RT structure sets.

// inspectSeries lists the series below a path, or those that are wanted, each to be read when its
// turn comes, and describes what else was found there.
func inspectSeries(path, wanted string, seen *seen) (look []sight, others []string, err error) {
	all, passed, err := seen.scanDICOM(path)
	if err != nil {
		return nil, nil, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	var rest []dicom.Passed
	for _, p := range passed {
		if p.What == dicom.WhatSEG || p.What == dicom.WhatRTSTRUCT {
			look = append(look, sight{p.Path, func() Entry { return inspectObject(p.Path, "DICOM "+p.What) }})
			continue
		}
		if p.Err == nil && stat.IsDir() {
			rest = append(rest, p)
			continue
		}
		e := Entry{Path: p.Path, Kind: KindDICOM}
		if _, unread := errors.AsType[*fs.PathError](p.Err); p.What == dicom.NotDICOM || unread {
			e.Kind = KindUnknown
		}
		if p.What == dicom.NotDICOM && p.StandsIn == "" {
			e.Unreadable = !stat.IsDir() // somebody named it
			e.problem("neither NIfTI, NRRD, MetaImage nor DICOM")
		} else {
			e.problem("%s", describe(p))
		}
		look = append(look, sight{p.Path, func() Entry { return e }})
	}
	slices.SortStableFunc(all, func(a, b *dicom.Series) int {
		return cmp.Or(cmp.Compare(commonFolder(a.Files), commonFolder(b.Files)),
			numbers.CompareNatural(a.Number, b.Number),
			a.Part-b.Part)
	})
	for _, s := range all {
		if wanted == "" || wanted == SeriesAll || s.Is(wanted) {
			look = append(look, sight{commonFolder(s.Files), func() Entry {
				e := inspectOne(path, stat.IsDir(), s)
				switch shared := slices.ContainsFunc(all, s.SharesNumber); {
				case shared && s.UID == "":
					e.problem("another series of its study has the same " +
						"number, and this one has no UID to choose it by")
				case shared:
					e.problem("another series of its study has the same number: --series %s takes this one", s.UID)
				}
				return e
			}})
		}
	}
	return look, passedOver(rest), nil
}

func inspectOne(path string, folder bool, s *dicom.Series) Entry {
	e := Entry{
		Path: path, Kind: KindDICOM, Series: s.UID, Number: s.Number, Modality: s.Modality, Shape: s.Shape[:],
		Axcodes:     s.Axcodes,
		Description: s.Description, Protocol: s.Protocol, Kernel: s.Kernel, Phase: s.Phase, ImageType: s.ImageType,
		Unit: s.Unit,
	}
	if s.Part > 0 {
		e.Number += fmt.Sprintf(".%d", s.Part)
	}
	if folder {
		e.Path = commonFolder(s.Files)
	}
	about := func(message string) string {
		if _, text, found := strings.Cut(message, "series "+s.Number+": "); found {
			return text // of the whole series, which the entry names
		}
		return e.about(message)
	}
	if s.Localizer {
		e.Kind = KindLocalizer // which is no problem, nor that it is a single slice
	} else {
		for _, p := range s.Problems {
			e.Problems = append(e.Problems, about(p))
		}
	}
	if s.Fragment() && !s.Localizer && s.Err == nil {
		e.problem("too few slices for a scan")
	}
	if s.Grid != (volume.Grid{}) {
		e.setGrid(s.Grid)
	}
	v, err := format.OfSeries(s).Read(format.Options{Note: func(note string) {
		if !slices.Contains(s.Problems, note) { // found in the pixels
			e.problem("%s", note)
		}
	}})
	if err != nil {
		e.Unreadable = true
		if text := about(err.Error()); !slices.Contains(e.Problems, text) {
			e.problem("%s", text)
		}
		return e
	}
	e.setGrid(v.Grid)
	e.Dtype = "int16"
	if v.Int16 == nil {
		e.Dtype = "float32"
	}
	e.setValues(v)
	if !s.Localizer {
		e.Problems = append(e.Problems, doubtsAboutGrid(v.Grid)...)
		if mayBeCT(s) {
			e.Problems = append(e.Problems, doubtsAbout(v)...)
		}
	}
	return e
}

// inspectObject describes a SEG object, which is read, or an RT structure set: its structures,
// numbered as they come.
func inspectObject(path, kind string) Entry {
	e := Entry{Path: path, Kind: kind}
	o, err := format.OpenObject(path)
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	if set := o.Structures; set != nil {
		e.Series, e.Number, e.Modality, e.LabelNames = set.UID, set.Number, dicom.WhatRTSTRUCT, map[uint16]string{}
		e.Problems = set.Problems
		for n, s := range set.Structures {
			name := s.Name
			if !s.Drawn {
				name += " (no contours)"
			}
			e.LabelNames[uint16(n+1)] = name
		}
		return e
	}
	g := o.Segmentation
	e.Series, e.Number, e.Modality, e.Dtype = g.UID, g.Number, dicom.WhatSEG, strings.ToLower(g.Kind)
	l, err := g.Read(dicom.Options{Note: func(note string) { e.problem("%s", note) }})
	if err != nil {
		e.cannotBeRead(err)
		return e
	}
	e.setGrid(l.Grid)
	e.Labels, e.LabelNames = l.Counts(), l.Names
	return e
}

// A sight is something to look at.
type sight struct {
	path string       // of the file, or of the folder of a series
	look func() Entry // reads all voxels
}
