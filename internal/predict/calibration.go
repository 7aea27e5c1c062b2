package predict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/table"
)

// This file: which model the label maps were made by whose DSC an estimate goes by.

// madeBy is the column of that in calibration.csv: JSON, as label maps have it.
const madeBy = "made_by"

// Calibration is the table of label maps whose DSC is known, with what says how p made them.
func Calibration(cases []quality.Case, set *quality.Set, p Model) (table.Table, error) {
	t := quality.Table(cases, set, nil)
	made := (&Batch{}).origin(p)
	made.Checkpoints = nil // Model says the same
	text, err := json.Marshal(made)
	if err != nil {
		return t, err
	}
	t.Columns = append(slices.Clone(t.Columns), table.Column{Key: madeBy})
	for n := range t.Rows {
		t.Rows[n] = append(t.Rows[n], string(text))
	}
	return t, nil
}

// CheckCalibration compares the model and the settings that the label maps of a calibration.csv
// were made with to those of p.
func CheckCalibration(text []byte, p Model) error {
	rows, err := table.Read(bytes.NewReader(text), "quality of label maps", madeBy)
	if err != nil {
		return err
	}
	now := (&Batch{}).origin(p)
	for n, row := range rows {
		var was origin
		if err := json.Unmarshal([]byte(row[madeBy]), &was); err != nil {
			return fmt.Errorf("row %d: %s is damaged: %w", n+1, madeBy, err)
		}
		if other := was.differs(now); other != "" {
			return fmt.Errorf("row %d: its label map %s", n+1, other)
		}
	}
	return nil
}
