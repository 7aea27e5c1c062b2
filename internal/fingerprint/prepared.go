package fingerprint

import (
	"context"
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw/internal/planning"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: the fingerprint of cases that are prepared.

// OfRecords is the fingerprint of prepared cases as far as their records tell it: all but the
// intensities under the labels.
func OfRecords(store *prepared.Store) planning.Fingerprint {
	f, _ := ofPrepared(store, nil)
	f.Values = "not looked at: the cases are prepared, and nothing is decided by them"
	return f
}

// OfPrepared is the fingerprint of prepared cases; it reads the labelled ones. told hears of each,
// of so many.
func OfPrepared(ctx context.Context, store *prepared.Store, told func(done, of int)) (planning.Fingerprint, error) {
	labelled, _ := store.ForTraining()
	n := 0
	return ofPrepared(store, func(r prepared.Record) ([]Values, error) {
		values, err := under(store, r)
		if err == nil {
			err = ctx.Err()
		}
		n++
		told(n, len(labelled))
		return values, err
	})
}

// ofPrepared makes the fingerprint; look gives the values under the labels of a case, and is nil
// where nobody asks for them.
func ofPrepared(store *prepared.Store, look func(prepared.Record) ([]Values, error)) (planning.Fingerprint, error) {
	how := store.Preparation()
	f := planning.Fingerprint{
		Modality: how.ModalityName(), Intensity: how.Scheme(), Channels: max(how.Inputs(), 1),
		Ready: true, Prepared: how.Spacing, Names: store.LabelNames(),
		Window: how.Window,
	}
	s := summing{of: &f, how: how, channels: make([]Foreground, f.Channels)}
	var labelled []string
	for r := range store.Records() {
		if r.Group != "" {
			continue
		}
		scan := planning.Scan{Spacing: r.Spacing, Shape: r.Shape, Whole: r.Shape, Body: r.Shape, Labels: r.HasLabels}
		if original, err := r.Original.Oriented(how.Axcodes); err == nil {
			own := original.Spacing()
			for a := range 3 { // what was prepared of the scan, in voxels of the scan
				scan.Shape[a] = max(1, int(float64(r.Shape[a])*r.Spacing[a]/own[a]+0.5))
			}
			scan.Spacing, scan.Whole, scan.Body, scan.Cut = own, original.Shape, scan.Shape, r.Box != nil
		}
		var values []Values
		if r.HasLabels {
			labelled = append(labelled, r.ID)
			if look != nil {
				var err error
				if values, err = look(r); err != nil {
					return f, err
				}
			}
		}
		s.add(scan, r.LabelCounts, volumeOf(r.Spacing), values)
	}
	if len(f.Scans) == 0 {
		return f, errors.New("all prepared cases are held back for testing: there is none to plan for")
	}
	f.Patients = dataset.PatientsOf(store.Records()).Count(labelled)
	s.finish(valuesOfPrepared(how))
	return f, nil
}

// valuesOfPrepared says what values prepared cases have.
func valuesOfPrepared(how volume.Preparation) string {
	if how.Channels != "" || how.Scheme() != volume.CTWindow {
		return "prepared values, in units of the scans"
	}
	return fmt.Sprintf("prepared values, HU clipped to %g to %g", how.Window[0], how.Window[1])
}

// under reads the values under the labels of a prepared case, in units of the scan.
func under(store *prepared.Store, r prepared.Record) ([]Values, error) {
	c, err := store.Open(r.ID)
	if err != nil {
		return nil, err
	}
	labels, err := c.LabelMap()
	if err != nil {
		return nil, err
	}
	seen := make([]float32, c.Len())
	all := make([]Values, c.Channels())
	for channel := range all {
		if err := c.CropChannel(seen, channel, [3]int{}, c.Shape); err != nil {
			return nil, err
		}
		unit := unitOf(store.Preparation().Channel(channel), r, channel)
		var values []float32
		for at, label := range labels.Labels {
			if label > 0 {
				values = append(values, unit(seen[at]))
			}
		}
		all[channel] = valuesOf(values)
	}
	return all, nil
}

// unitOf gives the value of a scan of what a network sees.
func unitOf(how volume.Preparation, r prepared.Record, channel int) func(seen float32) float32 {
	levels := r.Levels
	if channel > 0 {
		levels = r.More[channel-1].Levels
	}
	switch {
	case levels != nil:
		return func(seen float32) float32 { return float32(levels.Centre + levels.Width*float64(seen)) }
	case how.Scheme() == volume.CTPercentiles:
		return func(seen float32) float32 {
			return float32(how.Foreground[2] + how.Foreground[3]*float64(seen))
		}
	}
	return how.Intensities(nil).Denormalise
}
