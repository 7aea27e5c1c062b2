package cli

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/pretext"
)

func TestSolveCountsInWords(t *testing.T) {
	one := 1
	for want, e := range map[string]pretext.Evaluation{
		"10 crops of 1 case, 1 of them trained on":  {Cases: 1, Items: 10},
		"1 crop of 2 cases, 1 of them trained on":   {Cases: 2, Items: 1},
		"12 crops of 4 cases, 1 of them trained on": {Cases: 4, Items: 12},
	} {
		var out strings.Builder
		if err := printEvaluation(&out, pretext.Task{Items: "crops"}, e, &one); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: want %q", out.String(), want)
		}
	}
}
