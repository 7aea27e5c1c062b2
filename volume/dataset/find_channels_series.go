package dataset

import (
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: the series of a study that are the channels of one scan, such as a CT and its PET.

// channelSeries finds the series of a study that is each channel; nil where it has none of them.
// Why says which they are. Of several that may be the first one, those that labels refer to go
// before the others. A channel that lacks is an error.
func channelSeries(study []*dicom.Series, names []string, drawn map[*dicom.Series][]format.Object) (
	channels []*dicom.Series, why string, err error) {
	var missing, taken []string
	for n, name := range names {
		var fitting []*dicom.Series
		for _, s := range study {
			if isChannel(s, name) && !s.Localizer && !s.Projection() && s.Shape[2] > 1 {
				fitting = append(fitting, s)
			}
		}
		if len(fitting) == 0 {
			missing = append(missing, name)
			continue
		}
		if n == 0 {
			fitting = drawnOf(fitting, drawn)
		}
		s, err := channelAmong(fitting, name)
		if err != nil {
			return nil, "", err
		}
		channels, taken = append(channels, s), append(taken, fmt.Sprintf("%s: %s", name, s))
	}
	switch {
	case len(channels) == 0:
		return nil, "", nil
	case missing != nil:
		return nil, "", fmt.Errorf("has no channel %s: none of its %d series is; %d channels are wanted, %s: add it, "+
			"leave the study out, or say what the series is called (--channels '%s')",
			strings.Join(missing, ", "), len(study), len(names), safetext.List(names), words1(names))
	}
	why = "channels " + strings.Join(taken, "; ")
	for n, s := range channels[1:] {
		if !s.SameSpace(channels[0]) {
			why += fmt.Sprintf("; WARNING: %s and %s lie in different frames of reference: they are "+
				"together only where somebody has registered them",
				names[0], names[n+1])
		}
	}
	return channels, why, nil
}

// words1 shows how a channel is named by the words of a series.
func words1(names []string) string {
	all := append([]string{}, names...)
	all[len(all)-1] = "description~" + strings.ToLower(all[len(all)-1])
	return strings.Join(all, ",")
}

// isChannel says whether a series is the channel of a name: a modality, or else words as --series
// takes them (description~t2), or a word of the description.
func isChannel(s *dicom.Series, name string) bool {
	switch modality := ModalityOfChannel(name); {
	case strings.ContainsAny(name, "~="):
		return s.Is(name)
	case strings.EqualFold(name, s.Modality):
		return true
	case modality == volume.ModalityCT || modality == volume.ModalityPT:
		return s.Modality == modality
	}
	return s.Is("description~" + name)
}

// channelAmong chooses among the series that may be a channel: of CTs the largest axial one, of
// PETs the only one that is corrected for attenuation, so that its values become SUV.
func channelAmong(fitting []*dicom.Series, name string) (*dicom.Series, error) {
	if len(fitting) == 1 {
		return fitting[0], nil
	}
	if fitting[0].Modality == volume.ModalityCT {
		if s, _, err := dicom.Choose(fitting, ""); err == nil {
			return s, nil
		}
	}
	if fitting[0].Modality == volume.ModalityPT {
		var corrected []*dicom.Series
		for _, s := range fitting {
			if _, _, err := s.SUV(); err == nil {
				corrected = append(corrected, s)
			}
		}
		if len(corrected) == 1 {
			return corrected[0], nil
		}
	}
	var texts []string
	for _, s := range fitting {
		texts = append(texts, s.String())
	}
	return nil, fmt.Errorf("channel %s is not one series but %d: name it by words that "+
		"only one has, such as description~portal: %s",
		name, len(fitting), strings.Join(texts, "; "))
}
