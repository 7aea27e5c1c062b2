package dicom

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: standardised uptake values of PET, by body weight (SUVbw). QIBA's profile FDG-PET/CT
// has the formula:
//
//	SUVbw = activity (Bq/ml) * weight (g) / dose (Bq)
//
// where the dose is that of the injection, decayed to the time that the images are corrected to:
// the start of the scan (DecayCorrection START), or the injection itself (ADMIN).

// suvTags are the elements that SUV are computed from; RadiopharmaceuticalInformationSequence has
// the second list.
var (
	suvTags = []tag.Tag{tag.Units, tag.SUVType, tag.DecayCorrection, tag.CorrectedImage, tag.PatientWeight,
		tag.SeriesDate, tag.SeriesTime, tag.AcquisitionDate, tag.AcquisitionTime, tag.TimezoneOffsetFromUTC}
	injectionTags = []tag.Tag{tag.RadionuclideTotalDose, tag.RadionuclideHalfLife, tag.RadiopharmaceuticalStartTime,
		tag.RadiopharmaceuticalStartDateTime}
)

// SUV returns the factor that makes SUVbw (g/ml) of the values of a PET series, as [Read] returns
// them, and says how it was found. An error, which is a [volume.UnsupportedError], names the
// element that is missing or not as it must be.
func (s *Series) SUV() (factor float64, how string, err error) {
	factor, how, err = s.suv()
	if err != nil {
		err = &volume.UnsupportedError{Path: s.Files[0], Problem: "its values cannot be made SUV", Err: err}
	}
	return factor, how, err
}

func (s *Series) suv() (factor float64, how string, err error) {
	said, err := suvElements(s.Files[0])
	if err != nil {
		return 0, "", err
	}
	need := func(t tag.Tag) (text string, err error) {
		if said[t] == "" {
			err = fmt.Errorf("%s is missing", t)
		}
		return said[t], err
	}
	units, err := need(tag.Units)
	switch {
	case s.Modality != volume.ModalityPT:
		return 0, "", fmt.Errorf("they are of %s, not of a PET", s.Modality)
	case err != nil:
		return 0, "", err
	case units == "GML" && (said[tag.SUVType] == "" || said[tag.SUVType] == "BW"):
		return 1, "its values are SUV already (Units GML)", nil
	case units == "GML":
		return 0, "", fmt.Errorf("SUVType is %s, not BW", said[tag.SUVType])
	case units != "BQML":
		return 0, "", fmt.Errorf("%s is %s, not BQML or GML", "Units", units)
	}
	if corrected := strings.Split(said[tag.CorrectedImage], `\`); said[tag.CorrectedImage] != "" {
		for _, word := range []string{"ATTN", "DECY"} {
			if !slices.Contains(corrected, word) {
				return 0, "", fmt.Errorf("CorrectedImage lacks %s (attenuation ATTN, decay DECY)", word)
			}
		}
	} else {
		return 0, "", fmt.Errorf("%s is missing", tag.CorrectedImage)
	}
	number := func(t tag.Tag) (x float64, err error) {
		text, err := need(t)
		if err != nil {
			return 0, err
		}
		if x, err = strconv.ParseFloat(text, 64); err != nil || !(x > 0) || math.IsInf(x, 0) {
			return 0, fmt.Errorf("%s is %q, not a number above 0", t, element.Printable(text))
		}
		return x, nil
	}
	weight, errW := number(tag.PatientWeight)
	dose, errD := number(tag.RadionuclideTotalDose)
	if err := cmp.Or(errW, errD); err != nil {
		return 0, "", err
	}
	if dose < 1e4 { // MBq, which some scanners write
		return 0, "", fmt.Errorf("%s is %g, too little for Bq", tag.RadionuclideTotalDose, dose)
	}
	switch correction, err := need(tag.DecayCorrection); {
	case err != nil:
		return 0, "", err
	case correction == "ADMIN":
		return 1000 * weight / dose, "SUV by body weight, decay corrected to the injection", nil
	case correction != "START":
		return 0, "", fmt.Errorf("%s is %s, not START or ADMIN", tag.DecayCorrection, element.Printable(correction))
	}
	half, err := number(tag.RadionuclideHalfLife)
	if err != nil {
		return 0, "", err
	}
	start, of, err := s.scanStart(said)
	if err != nil {
		return 0, "", err
	}
	injection, err := injectionTime(said, start)
	if err != nil {
		return 0, "", err
	}
	waited := start.Sub(injection)
	const longest = 24 * time.Hour
	if waited < 0 || waited > longest {
		return 0, "", fmt.Errorf("%s lies %v before the scan", tag.RadiopharmaceuticalStartTime, waited)
	}
	decayed := dose * math.Exp2(-waited.Seconds()/half)
	return 1000 * weight / decayed, fmt.Sprintf("SUV by body weight, %.0f min after the injection (by %s)",
		waited.Minutes(), of), nil
}

// scanStart is when the scan began: the time of the series, unless slices were taken before it, as
// of a series that was made later. Then it is the first of these times.
func (s *Series) scanStart(said map[tag.Tag]string) (start time.Time, of tag.Tag, err error) {
	series, errS := clock(said, tag.SeriesDate, tag.SeriesTime)
	first, errA := clock(said, tag.AcquisitionDate, tag.AcquisitionTime)
	if errA == nil {
		for n := range s.stack.Slices {
			at, err := parseClock(said[tag.AcquisitionDate], s.stack.Slices[n].Info.Key(tag.AcquisitionTime))
			if err == nil && at.Before(first) {
				first = at
			}
		}
	}
	switch {
	case errS == nil && (errA != nil || !series.After(first)):
		return series, tag.SeriesTime, nil
	case errA == nil:
		return first, tag.AcquisitionTime, nil
	}
	return start, 0, errS
}

// injectionTime is when the tracer was given, in the time zone of the file: in it are all times
// that say no offset from UTC of their own (PS3.3 C.12.1.1.8).
func injectionTime(said map[tag.Tag]string, start time.Time) (time.Time, error) {
	const of = tag.RadiopharmaceuticalStartDateTime
	text, offset := said[of], ""
	if at := strings.IndexAny(text, "+-"); at >= 0 {
		text, offset = text[:at], text[at:]
	}
	if len(text) <= len("20260131") {
		return injectionClock(said, start)
	}
	at, err := parseClock(text[:8], text[8:])
	if err != nil || offset == "" {
		return at, err
	}
	own, err := parseOffset(of, offset)
	if err != nil {
		return at, err
	}
	if zone := said[tag.TimezoneOffsetFromUTC]; zone != "" {
		file, err := parseOffset(tag.TimezoneOffsetFromUTC, zone)
		return at.Add(file - own), err
	}
	// Nothing says of which zone the scan's times are, unless the same time is there without an
	// offset.
	if said[tag.RadiopharmaceuticalStartTime] == "" {
		return at, fmt.Errorf("%s has an offset from UTC (%s), and %s, which says that of the scan's times, is "+
			"missing: add it, or %s, in the scan's time zone", of, offset, tag.TimezoneOffsetFromUTC,
			tag.RadiopharmaceuticalStartTime)
	}
	local, err := injectionClock(said, start)
	if err != nil {
		return at, err
	}
	// time zones differ by quarters of an hour
	const quarter, rounding = 15 * time.Minute, time.Second
	switch apart := at.Sub(local); {
	case (apart - apart.Round(24*time.Hour)).Abs() <= rounding:
		// the offset is the scan's, too
		return at, nil
	case (apart - apart.Round(quarter)).Abs() > rounding:
		return at, fmt.Errorf("%s and %s are %v apart, which is no difference of time zones: correct one of them", of,
			tag.RadiopharmaceuticalStartTime, apart.Abs())
	}
	return local, nil
}

// injectionClock is the time of the injection without a date: the last before the scan.
func injectionClock(said map[tag.Tag]string, start time.Time) (time.Time, error) {
	text := said[tag.RadiopharmaceuticalStartTime]
	if text == "" {
		return time.Time{}, fmt.Errorf("%s is missing", tag.RadiopharmaceuticalStartTime)
	}
	at, err := parseClock(start.Format("20060102"), text)
	if err == nil && at.After(start) { // the day before
		at = at.AddDate(0, 0, -1)
	}
	return at, err
}

// clock is the time of a date and a time.
func clock(said map[tag.Tag]string, date, of tag.Tag) (time.Time, error) {
	for _, t := range []tag.Tag{date, of} {
		if said[t] == "" {
			return time.Time{}, fmt.Errorf("%s is missing", t)
		}
	}
	return parseClock(said[date], said[of])
}

// parseOffset reads how far a clock is ahead of UTC (PS3.5 6.2, DT): +0100.
func parseOffset(of tag.Tag, text string) (time.Duration, error) {
	at, err := time.Parse("-0700", text)
	if err != nil {
		return 0, fmt.Errorf("%s has the offset from UTC %q, which must be as +0100", of, element.Printable(text))
	}
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second, nil
}

// parseClock reads DA and TM (PS3.5 6.2): 20260131, and 134530.25 or less of it.
func parseClock(date, of string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(of, ".")
	if len(whole) == 2 || len(whole) == 4 {
		whole += strings.Repeat("0", 6-len(whole))
	}
	if fraction != "" {
		whole += "." + fraction
	}
	at, err := time.Parse("20060102150405", date+whole)
	if err != nil {
		return at, fmt.Errorf("%q and %q are no date and time", element.Printable(date), element.Printable(of))
	}
	return at, nil
}

// suvElements reads the elements that SUV are computed from.
func suvElements(path string) (map[tag.Tag]string, error) {
	file, err := element.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	said := map[tag.Tag]string{}
	w := file.Walker()
	take := func(list []tag.Tag) func(in *element.Walker, e element.Element) error {
		return func(in *element.Walker, e element.Element) (err error) {
			if slices.Contains(list, e.Tag) && said[e.Tag] == "" {
				said[e.Tag], err = in.Text(e)
			}
			return err
		}
	}
	_, err = w.Elements(file.Start, file.Size, false, 0, func(e element.Element) error {
		switch e.Tag {
		case tag.PixelData:
			return element.ErrStop
		case tag.RadiopharmaceuticalInformationSequence:
			return w.Items(e, 0, nil, take(injectionTags))
		}
		return take(suvTags)(w, e)
	})
	if errors.Is(err, element.ErrStop) {
		err = nil
	}
	return said, err
}

// toSUV makes SUV of the values of a volume.
func (s *Series) toSUV(v *volume.Volume, note func(string)) (*volume.Volume, error) {
	factor, how, err := s.SUV()
	if err != nil {
		return nil, err
	}
	note(how)
	values := v.Float32
	if values == nil {
		values = make([]float32, len(v.Int16))
		for n, x := range v.Int16 {
			values[n] = float32(x)
		}
	}
	for n := range values {
		values[n] = float32(float64(values[n]) * factor)
	}
	return &volume.Volume{Grid: v.Grid, Float32: values}, nil
}
