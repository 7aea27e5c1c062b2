package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: the one modality of the scans that are prepared together.

// A ModalityError says that a scan is another kind of scan than it is taken for.
type ModalityError struct{ message string }

func (e *ModalityError) Error() string { return e.message }

// CheckModality refuses a scan that was read and is of another modality: as it is stated, or else
// by its values. A name that says otherwise than the values is not believed. A CT whose values lie
// 1024 above Hounsfield units is none, whoever states it, unless the CTs that it is to be like may
// be so, too: above, which is [volume.Preparation.AboveHU].
func (c Case) CheckModality(v *volume.Volume, modality string, above bool) error {
	known, like := c.Modality(), likenessOf(v)
	if modality == volume.ModalityCT && (!known.Stated || known.Name == modality) {
		if err := checkOffset(v, like, above); err != nil {
			return err
		}
	}
	if known.Stated {
		if known.Name == modality {
			return nil
		}
		return &ModalityError{fmt.Sprintf("is %s by its %s, not %s", known.Name, known.By, modality)}
	}
	if !like.fits(modality) {
		return &ModalityError{fmt.Sprintf("is not %s by its values: they are %s", modality, like)}
	}
	if known.Name != "" && known.Name != modality && like == likeNothing {
		return &ModalityError{fmt.Sprintf("is %s by its %s, not %s", known.Name, known.By, modality)}
	}
	return nil
}

// checkOffset refuses a CT whose values lie 1024 above those of others.
func checkOffset(v *volume.Volume, like likeness, above bool) error {
	if like != likeShiftedCT || above {
		return nil
	}
	low, high := valuesOf(v)
	return &ModalityError{fmt.Sprintf("has values from %.4g to %.4g, as a CT whose rescale by -1024 was left out "+
		"(subtract 1024, or give the scan with its rescale): it is not the CT in Hounsfield units", low, high)}
}

// ShiftedCT says so of a CT whose values lie 1024 above Hounsfield units; it is "" for any other.
func ShiftedCT(v *volume.Volume) string {
	if err := checkOffset(v, likenessOf(v), false); err != nil {
		return err.Error()
	}
	return ""
}

// WhereAbove says what is to be looked at in a CT for a network that may have been trained on
// values 1024 above Hounsfield units, if those of the CT are Hounsfield units; "" otherwise. A
// network of bone or metal is trained on such values, too.
func WhereAbove(v *volume.Volume) string {
	if likenessOf(v) != likeCT {
		return ""
	}
	low, high := valuesOf(v)
	return fmt.Sprintf("has values from %.4g to %.4g, in Hounsfield units; the network was trained on structures "+
		"above 600: if that was no bone, its CTs lay 1024 higher, and 1024 is to be added here", low, high)
}

// CheckModality is that of a case which was read, all channels, and is to be prepared so. Where
// somebody says of what modality all scans are, that has the say; but whether the values of a CT
// are Hounsfield units, they alone tell. CTs that lie 1024 above are taken by a window of such
// values, which people write; not by percentiles, which were counted in these very scans.
func (d *Dataset) CheckModality(c Case, p volume.Preparation, channels ...*volume.Volume) error {
	if !d.said {
		err := c.CheckModality(channels[0], p.ModalityName(), takesAbove(p))
		if err != nil {
			return fmt.Errorf("%s %w: --modality says what all of these scans are", c.Image, err)
		}
		return nil
	}
	for n, v := range channels {
		own := p.Channel(n)
		absolute := own.Scheme() == volume.CTWindow || own.Scheme() == volume.CTPercentiles
		if own.ModalityName() != volume.ModalityCT || !absolute {
			continue
		}
		if err := checkOffset(v, likenessOf(v), takesAbove(own)); err != nil {
			image := c.Image
			if n > 0 && n <= len(c.More) {
				image = c.More[n-1].Image
			}
			return fmt.Errorf("%s %w. Where all of these scans are so, --intensity ct-window with a "+
				"--window of their values takes them (such as --window=899,1299), or --modality OT as scans of "+
				"another kind", image, err)
		}
	}
	return nil
}

func takesAbove(p volume.Preparation) bool { return p.Scheme() == volume.CTWindow && p.AboveHU() }

// sampled is how many scans are read of a data set about whose modality nobody says anything.
const sampled = 3

// ChooseModality is the preparation for the modality of the scans, where it does not name one, and
// the data set with those of them that are prepared: all, or the ones of the modality that is
// named. Where nobody says what the scans are, the values of some of them do; a scan that would
// take more than the allowed bytes (0: what this process may take) is not read for that. Scans of
// several modalities are a [MixedError]. The note says what was chosen, and why; it is empty for
// CT.
func (d *Dataset) ChooseModality(p volume.Preparation, o ReadOptions, allowed int64) (_ *Dataset, _ volume.Preparation,
	note string, err error) {
	if d.chosen {
		return d, p, "", nil
	}
	if len(d.Channels) > 1 {
		return d.prepareChannels(p)
	}
	if p.Channels != "" {
		return nil, p, "",
			fmt.Errorf("channels %q are asked for, and cases here have one", p.Channels)
	}
	if err := p.Choose([3]float64{}).Check(); err != nil {
		return nil, p, "", err
	}
	kept := *d
	kept.chosen = true
	if wanted := strings.ToUpper(p.Modality); wanted != "" {
		kept.said, kept.Cases = true, nil
		left := map[string][]string{}
		for _, c := range d.Cases {
			if m := c.Modality(); m.Stated && m.Name != wanted {
				left[m.Name] = append(left[m.Name], c.ID)
			} else {
				c.modality = Modality{wanted, "--modality", true}
				kept.Cases = append(kept.Cases, c)
			}
		}
		var notes []string
		for _, name := range slices.Sorted(maps.Keys(left)) {
			notes = append(notes, fmt.Sprintf("left out, because --modality %s asks for others: %s of %s (%s)", wanted,
				numbers.Count(len(left[name]), "case"), name, safetext.List(left[name])))
		}
		if len(kept.Cases) == 0 {
			if slices.ContainsFunc(d.Cases, func(c Case) bool { return c.series != nil || c.IsDICOM() }) {
				notes = append(notes, fmt.Sprintf("where studies have several series, --series modality~%s takes those",
					wanted))
			}
			return nil, p, "", fmt.Errorf("no case is %s: %s", wanted, strings.Join(notes, "; "))
		}
		p = p.ForModality(wanted)
		if wanted != volume.ModalityCT {
			notes = append(notes, fmt.Sprintf("modality %s, by --modality; intensities: %s (--intensity %s)", wanted,
				p.DescribeIntensities(), p.Scheme()))
		}
		return &kept, p, strings.Join(notes, "; "), p.Choose([3]float64{}).Check()
	}
	modality, why, err := d.modalityOfAll(p, o, cmp.Or(allowed, memory.Allowed()))
	if err != nil {
		return nil, p, "", err
	}
	p = p.ForModality(modality)
	kept.Cases = slices.Clone(d.Cases)
	for n, c := range kept.Cases {
		kept.Cases[n] = c.TakenFor(modality)
	}
	if err := p.Choose([3]float64{}).Check(); err != nil {
		return nil, p, "", fmt.Errorf("modality %s, by the %s: %w", modality, why, err)
	}
	if modality == volume.ModalityCT {
		return &kept, p, "", nil
	}
	return &kept, p, fmt.Sprintf("modality %s, by the %s; intensities: %s (--intensity %s)", modality, why,
		p.DescribeIntensities(), p.Scheme()), nil
}

// unknownModality is DICOM's word for other images.
const unknownModality = "OT"

// prepareChannels is [Dataset.ChooseModality] for cases of several channels: names say what each
// is.
func (d *Dataset) prepareChannels(p volume.Preparation) (_ *Dataset, _ volume.Preparation, note string, err error) {
	if names := strings.Join(d.Channels, ","); p.Channels != "" && p.Channels != names {
		return nil, p, "", fmt.Errorf("channels %q are asked for, and the cases have %q", p.Channels, names)
	}
	kept := *d
	kept.chosen, kept.said = true, true
	asked, modalities := p.Modality, make([]string, len(d.Channels))
	p.Channels = strings.Join(d.Channels, ",")
	for n, name := range d.Channels {
		if modalities[n] = cmp.Or(ModalityOfChannel(name), unknownModality); asked != "" {
			modalities[n] = p.Channel(n).ModalityName()
		}
	}
	p = p.WithChannels(d.Channels, modalities)
	if err := p.Choose([3]float64{}).Check(); err != nil {
		return nil, p, "", err
	}
	return &kept, p, fmt.Sprintf("%d channels; intensities: %s (--intensity %s)", len(d.Channels),
		p.DescribeIntensities(), p.Intensity), nil
}

// modalityOfAll is the one modality of the scans, and who says so.
func (d *Dataset) modalityOfAll(p volume.Preparation, o ReadOptions, allowed int64) (modality, why string, err error) {
	stated, named := map[string][]string{}, map[string][]int{}
	for n, c := range d.Cases {
		switch m := c.Modality(); {
		case m.Stated:
			stated[m.Name], why = append(stated[m.Name], c.ID), m.By
		case m.Name != "":
			named[m.Name] = append(named[m.Name], n)
		}
	}
	if len(stated) > 1 {
		return "", "", &MixedError{d.Root, stated}
	}
	for name := range stated {
		return name, why, nil // each of the others is compared with it
	}
	// What names say is asked of the values, and what no names say, too.
	found := map[string][]string{}
	look := func(name string, at int) {
		c := d.Cases[at].Located()
		if need, known := c.Memory(p); known && need > allowed {
			return
		}
		v, _, err := c.ReadImage(o)
		if err != nil {
			return // its preparation says why
		}
		switch like := likenessOf(v); {
		case like == likeNothing && name == "":
			return // it has no say
		case like == unlikeCT && (name == "" || name == volume.ModalityCT):
			name = volume.ModalityMR
		case !like.fits(name) || name == "":
			name = volume.ModalityCT
		}
		found[name] = append(found[name], d.Cases[at].ID)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		look(name, named[name][0])
	}
	if len(named) == 0 {
		at := -1
		for n := range sampled {
			if next := n * (len(d.Cases) - 1) / (sampled - 1); next != at {
				at = next
				look("", at)
			}
		}
	}
	switch names := slices.Sorted(maps.Keys(found)); {
	case len(names) > 1:
		return "", "", &MixedError{d.Root, found}
	case len(names) == 0:
		return volume.ModalityCT, "", nil
	case named[names[0]] != nil:
		return names[0], "names", nil
	default:
		return names[0], byValues, nil
	}
}

const byValues = "values, which are no Hounsfield units: if it is another modality, say it with --modality"
