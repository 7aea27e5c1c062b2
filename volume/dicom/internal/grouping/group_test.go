package grouping

import (
	"fmt"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// uids are the ways in which a UID of the slices of one series is spoilt: what slice n of count
// has, "" for none.
var uids = map[string]func(n, count int) string{
	"same":           func(int, int) string { return "1" },
	"missing":        func(int, int) string { return "" },
	"half missing":   func(n, _ int) string { return []string{"1", ""}[n%2] },
	"third missing":  func(n, _ int) string { return []string{"1", "1", ""}[n%3] },
	"each":           func(n, _ int) string { return fmt.Sprint(n) },
	"each or none":   func(n, _ int) string { return []string{fmt.Sprint(n), ""}[n%2] },
	"two behind":     func(n, count int) string { return fmt.Sprint(2 * n / count) },
	"two in turns":   func(n, _ int) string { return fmt.Sprint(n % 2) },
	"three in turns": func(n, _ int) string { return fmt.Sprint(n % 3) },
}

// frames are the ways that are tried for frames of reference. All would take long.
var frames = []string{"same", "missing", "half missing", "each", "two in turns"}

// slice is an image at z mm, whose file does not exist: its pixels differ from those of any other.
func slice(z float64, instance int, number, series, study, frame string) *stack.Image {
	return &stack.Image{
		Image: pixels.Image{Path: fmt.Sprintf("folder/%s-%d-%g", series, instance, z), Rows: 8, Columns: 8, Samples: 1,
			Frames: 1},
		Series: series, Study: study, FrameOfRef: frame, Instance: instance, Number: number, Modality: "CT",
		Shared: stack.Info{Position: []float64{0, 0, z}, Orientation: []float64{1, 0, 0, 0, 1, 0},
			Spacing: []float64{1, 1}},
	}
}

// named puts a word before a UID.
func named(word, uid string) string {
	if uid == "" {
		return ""
	}
	return word + uid
}

// spoilt is a series with a UID of each kind spoilt in its way.
func spoilt(at []float64, instances []int, study, series, frame string) (images []*stack.Image) {
	for n, z := range at {
		count := len(at)
		images = append(images, slice(z, instances[n], "3", named("series", uids[series](n, count)),
			named("study", uids[study](n, count)), named("frame", uids[frame](n, count))))
	}
	return images
}

func counts(images []*stack.Image) (found []int) {
	volumes, _ := Group(images)
	for _, v := range volumes {
		found = append(found, len(v.Slices))
	}
	slices.Sort(found)
	return found
}

// A series stays one volume however its UIDs are spoilt. If a slice is missing or there twice, that
// is said of the whole: no part of it is taken for a volume.
func TestNoUIDTearsASeriesApart(t *testing.T) {
	const count = 12
	type series struct {
		at        []float64
		instances []int
	}
	var even series
	for n := range count {
		even.at, even.instances = append(even.at, 2*float64(n)), append(even.instances, n+1)
	}
	kinds := map[string]series{"even": even, "no instance numbers": {even.at, make([]int, count)}}
	for _, n := range []int{1, 6} {
		kinds[fmt.Sprintf("without slice %d", n)] = series{slices.Delete(slices.Clone(even.at), n, n+1),
			slices.Delete(slices.Clone(even.instances), n, n+1)}
		kinds[fmt.Sprintf("slice %d twice", n)] = series{append(slices.Clone(even.at), even.at[n]),
			append(slices.Clone(even.instances), count+1)}
		kinds[fmt.Sprintf("slice %d and its number twice", n)] = series{slices.Insert(slices.Clone(even.at), n,
			even.at[n]), slices.Insert(slices.Clone(even.instances), n, n+1)}
		uneven := slices.Clone(even.at)
		uneven[n] += 0.7
		kinds[fmt.Sprintf("slice %d displaced", n)] = series{uneven, even.instances}
	}
	// Another series of the patient, in the same place, whose UIDs are right.
	others := map[string][]*stack.Image{"alone": nil}
	for n := range count {
		others["with another"] = append(others["with another"], slice(2*float64(n), n+1, "3", "other", "study1",
			"frame1"))
	}
	for kind, s := range kinds {
		for study := range uids {
			for series := range uids {
				for _, frame := range frames {
					for with, other := range others {
						want := []int{len(s.at)}
						if other != nil {
							want = append(want, len(other))
							slices.Sort(want)
						}
						images := append(spoilt(s.at, s.instances, study, series, frame), other...)
						if got := counts(images); !slices.Equal(got, want) {
							t.Errorf("%s, %s; study %s, series %s, frame of "+
								"reference %s: volumes of %d slices, want %d",
								kind, with, study, series, frame, got, want)
						}
					}
				}
			}
		}
	}
}

// Slices that lie unevenly and whose UIDs are all spoilt are no volumes of two, which always stack
// up: nobody knows what they are.
func TestPairsOfUnevenSlicesAreNoVolumes(t *testing.T) {
	at := []float64{0, 2, 5, 7, 14, 15}
	for frames, frame := range map[string]func(n int) int{"pairs behind": func(n int) int { return n / 2 },
		"pairs in turns": func(n int) int { return n % 3 }} {
		for _, count := range []int{3, 6} {
			var images []*stack.Image
			for n, z := range at[:count] {
				images = append(images, slice(z, 0, "3", named("series", fmt.Sprint(n)), named("study", fmt.Sprint(n)),
					named("frame", fmt.Sprint(frame(n)))))
			}
			if got := counts(images); slices.Max(got) > 1 {
				t.Errorf("%d slices, frames of reference: %s: volumes of %d slices", count, frames, got)
			}
		}
	}
}

// Two series of one patient stay two, whatever their other UIDs say.
func TestTwoSeriesStayTwo(t *testing.T) {
	const count = 12
	for name, c := range map[string]struct {
		first, step    float64 // of the second; the first is 0, 2, 4, ...
		number         string  // likewise; that of the first is 3
		fromInstance   int
		kernel, series string
	}{
		"two reconstructions":                           {0, 2, "4", 1, "", "same"},
		"of one number":                                 {0, 2, "3", 1, "", "same"},
		"of one number, counted on":                     {0, 2, "3", count + 1, "", "same"},
		"kernels that interleave evenly":                {1, 2, "3", count + 1, "BONE", "same"},
		"kernels, each slice a series":                  {0, 2, "3", count + 1, "BONE", "each"},
		"numbers, each slice a series":                  {0, 2, "4", 1, "", "each"},
		"numbers, no UID of a series":                   {0, 2, "4", 1, "", "missing"},
		"interleaved unevenly":                          {0.7, 2, "3", count + 1, "", "same"},
		"interleaved evenly, other number":              {1, 2, "4", 1, "", "same"},
		"interleaved evenly, counted anew":              {1, 2, "3", 1, "", "same"},
		"other distances":                               {0, 3, "3", 1, "", "same"},
		"partly in one place":                           {12, 2, "4", 1, "", "same"},
		"partly in one place, of one number":            {12, 2, "3", 1, "", "same"},
		"one behind the other, other number":            {2 * count, 2, "4", 1, "", "same"},
		"one behind the other, counted anew":            {2 * count, 2, "3", 1, "", "same"},
		"one behind the other, each slice a series":     {2 * count, 2, "4", 1, "", "each"},
		"far behind the other, counted on, head, thigh": {20 * count, 2, "3", count + 1, "", "same"},
	} {
		for study := range uids {
			for _, frame := range frames {
				var images []*stack.Image
				for n := range 2 * count {
					z, instance, number, kernel := 2*float64(n), n+1, "3", "SOFT"
					series := named("first", uids[c.series](n, count))
					if n >= count {
						z, instance, number, kernel = c.first+c.step*float64(n-count), c.fromInstance+n-count, c.number,
							c.kernel
						series = named("second", uids[c.series](n, count))
					}
					im := slice(z, instance, number, series, named("study", uids[study](n, 2*count)),
						named("frame", uids[frame](n, 2*count)))
					if c.kernel != "" {
						im.Shared.VolumeKeys[stack.KernelTag] = kernel
					}
					images = append(images, im)
				}
				if got := counts(images); !slices.Equal(got, []int{count, count}) {
					t.Errorf("%s; study %s, frame of reference %s: volumes of %d slices", name, study, frame, got)
				}
			}
		}
	}
}

// A series that is complete by itself does not become one with a slice of another in its place.
func TestSliceInPlaceOfACompleteSeries(t *testing.T) {
	images := []*stack.Image{slice(4, 13, "3", "other", "study", "frame")}
	for n := range 12 {
		images = append(images, slice(2*float64(n), n+1, "3", "series", "study", "frame"))
	}
	if got := counts(images); !slices.Equal(got, []int{1, 12}) {
		t.Errorf("volumes of %d slices", got)
	}
}

// A series that goes on in another of another number, its slices counted on, is one.
func TestSeriesThatGoesOnInAnother(t *testing.T) {
	for name, which := range map[string]func(n int) int{"behind": func(n int) int { return n / 6 },
		"in turns": func(n int) int { return n % 2 }} {
		var images []*stack.Image
		for n := range 12 {
			number := fmt.Sprint(which(n))
			images = append(images, slice(2*float64(n), n+1, number, "series"+number, "study", "frame"))
		}
		if got := counts(images); !slices.Equal(got, []int{12}) {
			t.Errorf("%s: volumes of %d slices", name, got)
		}
	}
}
