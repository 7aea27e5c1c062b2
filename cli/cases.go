package cli

import (
	"errors"
	"io"
	"slices"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// common are the cases of a that are in b too.
func common(a, b []string) []string {
	both := among(b)
	return slices.DeleteFunc(slices.Clone(a), func(id string) bool { return !both(id) })
}

// among tells whether a case is one of ids.
func among(ids []string) func(id string) bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return func(id string) bool { return set[id] }
}

// noteTorn says which held-out cases are of patients who are trained on, as a file of folds may
// have it.
func noteTorn(w io.Writer, s dataset.Selection, training, held []string) {
	if torn := s.Torn(training, held); len(torn) > 0 {
		say(w, "WARNING: %s of patients who have others that are trained on: %s",
			numbers.Count(len(torn), "held-out case"), list(torn))
	}
}

// noteUndrawn warns of structures that nobody drew in some of the cases.
func noteUndrawn(w io.Writer, store *prepared.Store, c segment.Config, training, held []string) {
	if text := c.UndrawnIn(store, training); text != "" {
		say(w, "WARNING: not drawn in all training cases: %s. %s", text, c.UndrawnLearnt())
	}
	if text := c.UndrawnIn(store, held); text != "" {
		say(w, "WARNING: not drawn in all held-out cases: %s. There it is not scored", text)
	}
}

// noteInit says what must be known of the checkpoint to start from: which held-out cases it has
// seen, and where its scans or its network were others than those of the configuration.
func noteInit(w io.Writer, path string, store *prepared.Store, training, held []string,
	c segment.Config) error {
	if path == "" {
		return nil
	}
	d, err := checkpoint.Read(path)
	if errors.Is(err, checkpoint.ErrForeign) {
		say(w, "%s is another program's: nothing is known of the cases that it was trained on", path)
		sayChannels(w, path, c.Preparation.ChannelsAsked())
		return nil
	}
	if err != nil {
		return err
	}
	if d.Lost != "" {
		say(w, "WARNING: %s: %s: nobody can say whether held-out cases are among them", path, d.Lost)
	}
	for _, line := range d.Mismatches(c.Preparation, store.Spacings(training), c.Network) {
		say(w, "WARNING: %s", line)
	}
	seen := d.Seen()
	var pretrained, trained []string
	for n, digest := range store.Voxels(held) {
		switch scan, found := seen.Find(held[n], digest); {
		case !found:
		case scan.Labels:
			trained = append(trained, scan.Called(held[n]))
		default:
			pretrained = append(pretrained, scan.Called(held[n]))
		}
	}
	if len(pretrained) > 0 {
		say(w, "%s, pretrained on (without labels): %s", numbers.Count(len(pretrained), "held-out case"),
			list(pretrained))
	}
	if len(trained) > 0 {
		say(w, "%s, trained on, with their labels: what is measured on them says nothing about others: %s",
			numbers.Count(len(trained), "held-out case"), list(trained))
	}
	return nil
}
