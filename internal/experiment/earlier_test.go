package experiment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
)

// Runs that an earlier version began go on, and finished ones are tabulated: a setting that is
// newer than they are is not written where it has no value, so that it is no change. The files are
// that version's records.
func TestRecordsOfEarlierVersions(t *testing.T) {
	for name, record := range map[string]any{"earlier_trial.yaml": &trialRecord[earlierInference]{},
		"earlier_pretraining.yaml": &encoderRecord{OneOf: pretext.Choice()}} {
		path := filepath.Join("testdata", name)
		before, err := os.ReadFile(path)
		if err == nil {
			err = config.Load(path, record)
		}
		if err != nil {
			t.Fatal(err)
		}
		now, err := config.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		differences, err := config.Differences(string(before), string(now))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differences {
			t.Errorf("%s: %s: %q then, %q now", name, d.Key, d.Old, d.New)
		}
	}
}
