package auto

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// All networks of a job that an earlier version began learn classes that were drawn in part as its
// first one did, and it is said once.
func TestJobOfAnEarlierRuleGoesOnAsBegun(t *testing.T) {
	for _, test := range []struct {
		name          string
		undrawn       map[int][]uint16 // in a case, of the class 2+3
		within, whole bool             // it was stopped within fold 2; its version knew the rule
		want, told    int              // that learn as that version; how often it is told
	}{
		{"within a fold", map[int][]uint16{4: {3}}, true, false, 5, 1},
		{"between folds", map[int][]uint16{4: {3}}, false, false, 5, 1},
		{"begun by this version", map[int][]uint16{4: {3}}, true, true, 0, 0},
		{"all is drawn", nil, true, false, 0, 0},
		{"a class is not drawn", map[int][]uint16{4: {2, 3}}, false, false, 0, 0},
		{"another case has none of it", map[int][]uint16{4: {3}, 5: {2, 3}}, false, false, 0, 2},
	} {
		dir := filepath.Join(t.TempDir(), "cases")
		w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
		for i := range 6 {
			scan, organs, failed := phantom.New(uint64(i), phantom.Options{Shape: [3]int{12, 12, 12}})
			if err = errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			in := prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: scan, Labels: organs}
			in.Undrawn = test.undrawn[i]
			for n, label := range organs.Labels {
				if slices.Contains(in.Undrawn, label) {
					organs.Labels[n] = 0
				}
			}
			if _, err = w.Add(in); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		t.Chdir(t.TempDir())
		v := &verbs{t: t, store: dir, steps: 3000, cut: 6} // in fold 2
		if _, err := v.job("job", quiet).Run(t.Context()); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		rules := ""
		if test.whole {
			rules = `, "rules": ["a class is undrawn where one of its labels is"]`
		}
		v.write("job/fold1/run.json", `{"kind": "segmentation", "finished": true, "step": 700`+rules+`}`)
		if test.within {
			v.write("job/fold2/run.json", `{"kind": "segmentation", "step": 100`+rules+`}`)
		} else if err := os.RemoveAll("job/fold2"); err != nil {
			t.Fatal(err)
		}
		v.calls, v.cut = nil, 2 // and once more, in fold 3
		told := 0
		say := func(format string, args ...any) {
			if strings.Contains(fmt.Sprintf(format, args...), "an earlier version began fold1") {
				told++
			}
		}
		if _, err := v.job("job", say).Run(t.Context()); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		v.cut = 0
		if _, err := v.job("job", say).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n, call := range v.calls[:5] {
			if as := strings.Count(call, "--undrawn background"); !strings.HasPrefix(call, "finetune ") ||
				as != min(test.want, 1) {
				t.Errorf("%s: command %d is %q", test.name, n+1, call)
			}
		}
		if again := strings.HasSuffix(v.calls[0], "--resume"); !again {
			t.Errorf("%s: fold 2 goes on by %q", test.name, v.calls[0])
		}
		text, err := os.ReadFile("job/commands.sh")
		if got := strings.Count(string(text), "--undrawn background"); err != nil || got != test.want ||
			told != test.told {
			t.Errorf("%s: %d fine-tunings learn as the earlier version, want %d; told %d times, want %d: %v", test.name,
				got, test.want, told, test.told, err)
		}
	}
}
