package quality

import (
	"bytes"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/table"
)

// File is what the table of [Table] is called beside label maps.
const File = "quality.csv"

var columns = []table.Column{
	{Key: "case", Title: "case"}, {Key: "label"}, {Key: "structure", Title: "structure"}, {Key: "voxels"},
	{Key: "volume_ml", Title: "volume (ml)", Digits: 1}, {Key: "height_mm", Title: "height (mm)", Digits: 1},
	{Key: "components", Title: "components"}, {Key: "largest_share"}, {Key: "edges"},
	{Key: "volume_z", Title: "z", Digits: 1}, {Key: "height_z", Title: "z of height", Digits: 1},
	{Key: "agreement", Title: "agreement", Digits: 3}, {Key: "dsc_estimate", Title: "DSC, estimated", Digits: 2},
	{Key: "dsc_low"}, {Key: "dsc_high"}, {Key: "flag", Title: "what is unusual"},
}

// Table lists the structures of cases, each held against the set, one in a row; and what is
// missing. estimate may be nil.
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
			var agreement, dsc, low, high any
			if x, known := c.Agreement[one.Label]; known {
				agreement = x
			}
			if e, known := estimate.Of(c, one, s); known {
				dsc, low, high = 100*e.DSC, 100*e.Low, 100*e.High
			}
			t.Rows = append(t.Rows, []any{c.ID, int(one.Label), one.Name, one.Voxels, one.Volume, one.Height,
				one.Components, one.Largest, one.Cut, s.VolumeZ(one), s.HeightZ(one), agreement, dsc, low, high,
				about(one.Key())})
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
