package quality

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
)

// File is what the table of [Table] is called beside label maps.
const File = "quality.csv"

var columns = []table.Column{
	{Key: "case", Title: "case"}, {Key: "label"}, {Key: "structure", Title: "structure"}, {Key: "voxels"},
	{Key: "volume_ml", Title: "volume (ml)", Digits: 1}, {Key: "height_mm", Title: "height (mm)", Digits: 1},
	{Key: "components", Title: "components"}, {Key: "largest_share"}, {Key: "edges"},
	{Key: "volume_z", Title: "z", Digits: 1}, {Key: "height_z", Title: "z of height", Digits: 1},
	{Key: "agreement", Title: "agreement", Digits: 3}, {Key: "dsc", Title: "DSC", Digits: 2},
	{Key: "dsc_estimate", Title: "DSC, estimated", Digits: 2},
	{Key: "dsc_low"}, {Key: "dsc_high"}, {Key: "flag", Title: "what is unusual"},
}

// Table lists the structures of cases, each held against the set, one in a row; and what is
// missing, with 0 voxels where a network could have drawn it. estimate may be nil.
func Table(cases []Case, s *Set, estimate *Estimator) table.Table {
	t := table.Table{Columns: columns}
	for _, c := range cases {
		found := s.Judge(c)
		about := func(key string) string {
			var reasons []string
			for _, f := range found {
				if f.Key == key {
					reasons = append(reasons, f.Reason)
				}
			}
			found = slices.DeleteFunc(found, func(f Finding) bool { return f.Key == key })
			return strings.Join(reasons, "; ")
		}
		for _, one := range c.Structures {
			var volumeZ, heightZ, agreement, truth, dsc, low, high any
			if s.Judges(one.Key()) {
				volumeZ, heightZ = s.VolumeZ(one), s.HeightZ(one)
			}
			if x, known := c.Agreement[one.Label]; known {
				agreement = x
			}
			if x, known := c.DSC[one.Label]; known {
				truth = 100 * x
			}
			if e, known := estimate.Of(c, one); known {
				dsc = 100 * e.DSC
				if !math.IsNaN(e.Low) {
					low, high = 100*e.Low, 100*e.High
				}
			}
			t.Rows = append(t.Rows, []any{c.ID, int(one.Label), one.Name, one.Voxels, one.Volume, one.Height,
				one.Components, one.Largest, one.Cut, volumeZ, heightZ, agreement, truth, dsc, low, high,
				about(one.Key())})
		}
		for _, one := range c.Absent {
			row := make([]any, len(columns))
			row[0], row[1], row[2] = c.ID, int(one.Label), one.Name
			row[3], row[4], row[5], row[6] = 0, 0.0, 0.0, 0 // voxels, volume, height and components
			row[len(row)-1] = about(one.Key())
			if x, known := c.Agreement[one.Label]; known {
				row[11] = x
			}
			if x, known := c.DSC[one.Label]; known {
				row[12] = 100 * x
			}
			t.Rows = append(t.Rows, row)
		}
		for len(found) > 0 { // what is not there
			row := make([]any, len(columns))
			row[0], row[2] = c.ID, found[0].Key
			row[len(row)-1] = about(found[0].Key)
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// IsTable says whether a file holds what [Table] writes.
func IsTable(content []byte) bool {
	var header bytes.Buffer
	err := table.Table{Columns: columns}.CSV(&header)
	return err == nil && bytes.HasPrefix(content, header.Bytes())
}

// ReadTable reads the cases back, but for where their structures lie.
func ReadTable(r io.Reader) ([]Case, error) {
	rows, err := table.Read(r, "quality of label maps", "case", "label", "structure", "voxels", "volume_ml",
		"height_mm", "components", "largest_share", "edges", "agreement", "dsc")
	if err != nil {
		return nil, err
	}
	var cases []Case
	of := func(id string) *Case {
		if n := len(cases); n == 0 || cases[n-1].ID != id {
			cases = append(cases, Case{ID: id, Agreement: map[uint16]float64{}, DSC: map[uint16]float64{}})
		}
		return &cases[len(cases)-1]
	}
	for line, row := range rows {
		if row["label"] == "" { // what is missing
			continue
		}
		number := func(key string, most float64) float64 {
			x, e := strconv.ParseFloat(row[key], 64)
			if e != nil || !(x >= 0 && x <= most) {
				err = cmp.Or(err, fmt.Errorf("row %d: %s is %q, and must be a number from 0 to %g", line+1, key,
					safetext.Text(row[key]), most))
			}
			return x
		}
		const much = 1e9
		one, c := Structure{Label: uint16(number("label", math.MaxUint16)), Name: row["structure"]}, of(row["case"])
		if row["voxels"] == "0" && row["volume_ml"] == "0" { // nothing was found
			c.Absent = append(c.Absent, one)
		} else {
			one.Volume, one.Height = number("volume_ml", much), number("height_mm", much)
			one.Components, one.Largest = int(number("components", much)), number("largest_share", 1)
			if one.Cut = row["edges"]; one.Volume == 0 {
				err = cmp.Or(err, fmt.Errorf("row %d: a structure without voxels", line+1))
			}
			c.Structures = append(c.Structures, one)
		}
		if row["agreement"] != "" {
			c.Agreement[one.Label] = number("agreement", 1)
		}
		if row["dsc"] != "" {
			c.DSC[one.Label] = number("dsc", 100) / 100
		}
	}
	return cases, err
}
