package prepared

import (
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// Record describes a prepared case. Grid is the prepared image's; Original the grid of the scan
// it came from.
type Record struct {
	ID string `json:"id"`
	// "test" for cases that the data set itself holds back, such as MSD's imagesTs
	Group string `json:"group,omitempty"`
	// what the cases of one patient have in common, such as a digest of PatientID; "" where the
	// patient has one case, or is not known
	Patient string `json:"patient,omitempty"`
	volume.Grid
	Spacing  [3]float64  `json:"spacing"`
	Original volume.Grid `json:"original"`
	// the voxels of the scan that were prepared; nil: all
	Box *volume.Box `json:"crop,omitempty"`
	// how the scan's values became what a network sees, where that goes by the scan
	Levels    *volume.Levels `json:"levels,omitempty"`
	HasLabels bool           `json:"has_labels"`
	// how labels came onto voxels that they were not drawn on, see labelsByShare
	LabelsBy string `json:"labels_by,omitempty"`
	// its labels are what a network predicted: a case to learn from, which nothing is measured on
	Predicted bool `json:"labels_predicted,omitempty"`
	// voxels of each label but 0, on the prepared grid
	LabelCounts map[uint16]int `json:"label_counts,omitempty"`
	// the same of the labels as they were drawn, where they lie on other voxels than the prepared
	DrawnCounts map[uint16]int    `json:"drawn_label_counts,omitempty"`
	LabelNames  map[uint16]string `json:"label_names,omitempty"`
	// labels that other cases of the data have and that nobody drew in this one, ascending; nil
	// where none is missing, or nothing is known
	Undrawn []uint16 `json:"undrawn,omitempty"`
	// labels that were drawn in this case and have lost all their voxels to others that share them,
	// ascending: neither absent nor undrawn
	Emptied []uint16 `json:"emptied,omitempty"`
	Air     float64  `json:"air"` // share of the voxels that are air
	Notes   []string `json:"notes,omitempty"`
	Sources []Source `json:"sources,omitempty"`
	Origin  string   `json:"origin,omitempty"`
	// digest of the scan's voxels as they were read ([volume.Volume.Digest])
	Scan string `json:"scan,omitempty"`
	// its channels after the first; nil: it has one
	More []Channel `json:"more_channels,omitempty"`
	// bytes of the labels on the scan's own voxels; 0 where the prepared labels say the same
	OriginalBytes int64  `json:"original_label_bytes,omitempty"`
	Checksum      string `json:"checksum"` // SHA-256 of the case's .vox file
	Bytes         int64  `json:"bytes"`
}

// Channel is what is known of a channel after the first.
type Channel struct {
	Levels *volume.Levels `json:"levels,omitempty"` // as those of a Record
	Scan   string         `json:"scan,omitempty"`
}

// levels are those of a channel.
func (r Record) levels(channel int) *volume.Levels {
	if channel == 0 {
		return r.Levels
	}
	return r.More[channel-1].Levels
}

// checkChannels compares the channels with those of the preparation.
func (r Record) checkChannels(p volume.Preparation) error {
	if names := p.ChannelNames(); 1+len(r.More) != len(names) {
		return fmt.Errorf("%s, where the cases have %d", numbers.Count(1+len(r.More), "channel"), len(names))
	}
	for channel := range 1 + len(r.More) {
		if err := p.Channel(channel).CheckLevels(r.levels(channel)); err != nil {
			return err
		}
	}
	return nil
}

// labelsByShare says that each voxel has the label with the largest share of it.
const labelsByShare = "share"

// resampled reports whether the prepared voxels are others than the scan's.
func (r Record) resampled() bool {
	turned, err := r.Bounds().Grid().Oriented(r.Axcodes())
	return err != nil || !turned.Same(r.Grid, 1e-6)
}

// Bounds are those of what was prepared of the scan.
func (r Record) Bounds() volume.Bounds {
	bounds := r.Original.Whole()
	if r.Box != nil {
		bounds.Box = *r.Box
	}
	return bounds
}

// errOtherVersion says of a case that it was prepared otherwise than this program does.
var errOtherVersion = errors.New("another version of the program prepared it, in another way: voxsaw prepare --force " +
	"prepares it again")

// check refuses a record that could send a reader outside its file or outside the store.
func (r Record) check() error {
	if err := checkID(r.ID); err != nil {
		return err
	}
	if err := r.Grid.Check(); err != nil {
		return err
	}
	if r.Scan == "" || r.HasLabels && r.LabelsBy != labelsByShare {
		return errOtherVersion
	}
	if r.Predicted && !r.HasLabels {
		return errors.New("labels that it has not are said to be predicted")
	}
	if int64(r.Len()) > maxCaseVoxels {
		return fmt.Errorf("shape %v is more than %d voxels", numbers.Extents(r.Shape[:]), int64(maxCaseVoxels))
	}
	if len(r.More) >= volume.MaxChannels {
		return fmt.Errorf("%d channels", 1+len(r.More))
	}
	for label, n := range r.LabelCounts {
		if label == 0 || n < 1 || n > r.Len() {
			return fmt.Errorf("%d voxels of label %d", n, label)
		}
	}
	for label, n := range r.DrawnCounts {
		if label == 0 || n < 1 {
			return fmt.Errorf("%d voxels of label %d as drawn", n, label)
		}
	}
	if slices.Contains(r.Emptied, 0) || !slices.IsSorted(r.Emptied) {
		return fmt.Errorf("labels %s are said to be emptied", numbers.List(r.Emptied))
	}
	if slices.Contains(r.Undrawn, 0) || !slices.IsSorted(r.Undrawn) {
		return fmt.Errorf("labels %s are said not to be drawn", numbers.List(r.Undrawn))
	}
	if r.Box != nil {
		if err := r.Bounds().Check(); err != nil {
			return err
		}
	}
	if r.OriginalBytes < 0 || r.OriginalBytes > 0 && r.Original.Check() != nil {
		return fmt.Errorf("%d bytes of labels on a grid of %v", r.OriginalBytes, numbers.Extents(r.Original.Shape[:]))
	}
	if r.Bytes != newCaseLayout(r).end {
		return fmt.Errorf("%d bytes where %d are needed", r.Bytes, newCaseLayout(r).end)
	}
	return nil
}

// Padded reports whether a crop of this size is larger than the prepared scan along any axis, so
// that air is added wherever it is taken.
func (r Record) Padded(size [3]int) bool {
	return size[0] > r.Shape[0] || size[1] > r.Shape[1] || size[2] > r.Shape[2]
}
