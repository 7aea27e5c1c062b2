package auto

import (
	"slices"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: jobs that an earlier version began, which learnt what was drawn of classes in part.
// All networks of a job learn in one way.

// asBackground are the flags of a fine-tuning that learns as that version did.
var asBackground = []string{"--undrawn", segment.UndrawnBackground}

// undrawn are the flags that fine-tunings have which have not begun, so that they learn as those
// that have. It gives them to those, too, that the earlier version began, and says so.
func (j *Job) undrawn(names []string, data string) (flags []string, err error) {
	var earlier, unsaved []*record
	var folders []string
	for _, name := range names {
		r := j.state.find(name)
		if r == nil || !j.begun(name) {
			continue
		}
		if slices.Contains(r.Command, asBackground[0]) {
			flags = asBackground
			continue
		}
		whole, begun, err := segment.BegunByWhole(j.at(name))
		if err != nil {
			return nil, err
		}
		switch {
		case !begun: // nothing is saved of what it has learnt
			unsaved = append(unsaved, r)
		case !whole:
			earlier, folders = append(earlier, r), append(folders, name)
		}
	}
	if len(earlier) == 0 || !slices.ContainsFunc(names, func(name string) bool { return !j.done(name) }) {
		return flags, nil
	}
	partly, wholly, err := drawnInPart(j.at(folders[0]), data)
	if err != nil || len(partly) == 0 {
		return flags, err
	}
	if len(wholly) > 0 {
		j.Say("WARNING: an earlier version began %s, and learnt what was drawn of classes of which a label was not "+
			"drawn in a case (%s). Other networks leave that out: scores are of both ways. A network that was begun "+
			"so and is not finished cannot go on; where its folder is removed, --resume trains it anew",
			safetext.List(folders), safetext.List(partly))
		return flags, nil
	}
	j.Say("an earlier version began %s, and learnt what was drawn of classes of which a label was not drawn in a case "+
		"(%s): all networks of this job do, by --undrawn %s. A job with another --out leaves that out",
		safetext.List(folders), safetext.List(partly), segment.UndrawnBackground)
	for _, r := range slices.Concat(earlier, unsaved) {
		r.Command = slices.Concat(r.Command[:1], asBackground, r.Command[1:])
	}
	return asBackground, j.save()
}

// drawnInPart are the labelled cases of which the run in a folder has classes that were drawn in
// part, and those of which it has some that were not drawn at all.
func drawnInPart(folder, data string) (partly, wholly []string, err error) {
	path := train.ConfigOf(folder)
	text, err := smallfile.Read(path, smallfile.Settings)
	if err != nil {
		return nil, nil, err
	}
	var c struct {
		Labels  []string `yaml:"labels"`
		Undrawn string   `yaml:"undrawn"`
	}
	if err := config.Unmarshal(path, text, &c); err != nil || c.Undrawn == segment.UndrawnBackground {
		return nil, nil, err
	}
	store, err := prepared.Open(data)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	cases, _ := store.ForTraining()
	partly, wholly = segment.Config{Labels: c.Labels}.DrawnInPart(store, cases)
	return partly, wholly, nil
}
