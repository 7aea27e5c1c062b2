package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The verdicts on a file.
const (
	right   = "right"
	refused = "refused"
	wrong   = "wrong"
	missing = "missing"
)

// facts are what expected.py finds in headers that hold no scan, and the words with which Voxsaw
// refuses that.
var facts = map[string]string{
	"structured report":              "SR",
	"structure set":                  "RTSTRUCT",
	"RT object":                      "RT object",
	"dose":                           "RTDOSE",
	"parametric map":                 "parametric map",
	"compressed with gzip":           "DICOM compressed with gzip: decompress it",
	"directory":                      "DICOMDIR",
	"waveform":                       "waveform",
	"presentation state":             "presentation state",
	"document":                       "document",
	"no pixels":                      "no image",
	"floating-point pixels":          "floating-point",
	"colours":                        "holds colours",
	"complex numbers":                "holds complex numbers",
	"modality LUT":                   "Modality LUT",
	"mosaic":                         "a mosaic",
	"frames of a class that has one": "which holds one: where the others lie is not said",
	"no place":                       "does not say where",
}

// judge compares what was read with what another program read. A file that must be refused must be
// refused with one of the words.
func judge(r reading, e expectation, words []string) (verdict, why string) {
	for _, fact := range e.Is {
		words = append(words, facts[fact])
	}
	left := slices.Clone(e.Volumes)
	for _, v := range r.volumes {
		problem := "which nothing else reads"
		for n := range left {
			if problem = differ(v, left[n], e.Lossy); problem == "" {
				left = slices.Delete(left, n, n+1)
				break
			}
		}
		if problem != "" {
			return wrong, fmt.Sprintf(": a volume of %v, %s", v.Shape, problem)
		}
	}
	if len(words) > 0 {
		for _, text := range r.refusals {
			for _, w := range words {
				if strings.Contains(text, w) {
					return refused, ": " + w
				}
			}
		}
		return wrong, fmt.Sprintf(": must be refused with %q; %d volumes, %q", words, len(r.volumes), r.refusals)
	}
	if len(left) > 0 {
		return wrong, fmt.Sprintf(": %s reads a volume of %v; refused: %q", e.Reader, left[0].Shape, r.refusals)
	}
	if r.segments != e.Segments || r.labelled != e.Labelled {
		return wrong, fmt.Sprintf(": %d segments with %d pixels, %s has %d with %d; refused: %q", r.segments,
			r.labelled, e.Reader, e.Segments, e.Labelled, r.refusals)
	}
	if len(r.volumes) == 0 && r.segments == 0 {
		return wrong, fmt.Sprintf(": nobody reads it (%s), and no words are listed for %q", e.Error, r.refusals)
	}
	return right, ""
}

// differ says in which way two volumes are not the same, "" where they are.
func differ(got, want figure, lossy bool) string {
	a, b := trim(got.Shape), trim(want.Shape)
	if !slices.Equal(a, b) {
		return fmt.Sprintf("others have %v", want.Shape)
	}
	for n := range want.Spacing {
		if math.Abs(got.Spacing[n]-want.Spacing[n]) > 3e-4*want.Spacing[n] {
			return fmt.Sprintf("spacing %.6g, others have %.6g", got.Spacing, want.Spacing)
		}
	}
	// positions that are rounded to a tenth of a millimetre: others believe the first two
	if !near(got.First, want.First, 0.05) || !near(got.Last, want.Last, 0.05) {
		return fmt.Sprintf("from %.5g to %.5g mm, others have %.5g to %.5g", got.First, got.Last, want.First, want.Last)
	}
	span := math.Max(want.Max-want.Min, math.Max(math.Abs(want.Max), math.Abs(want.Min)))
	ends, mean := 1e-5*span, 1e-5*span
	if lossy {
		ends, mean = 0.02*span, 0.001*span
	}
	if math.Abs(got.Min-want.Min) > ends || math.Abs(got.Max-want.Max) > ends || math.Abs(got.Mean-want.Mean) > mean {
		return fmt.Sprintf("values %.7g to %.7g, mean %.7g, others have %.7g to %.7g, mean %.7g", got.Min, got.Max,
			got.Mean, want.Min, want.Max, want.Mean)
	}
	if got.Centre != nil && want.Centre != nil {
		if !near(got.Centre, want.Centre, 0.01) && !lossy {
			return fmt.Sprintf("centre %.5g, others have %.5g", got.Centre, want.Centre)
		}
	}
	return ""
}

// near compares coordinates; those that others do not have count as equal.
func near(got, want []float64, tolerance float64) bool {
	for n := range want {
		if math.Abs(got[n]-want[n]) > tolerance {
			return false
		}
	}
	return true
}

// trim leaves out extents of 1 at the end.
func trim(shape []int) []int {
	n := len(shape)
	for n > 0 && shape[n-1] == 1 {
		n--
	}
	return shape[:n]
}
