package dataset

import (
	"reflect"
	"slices"
	"testing"
)

// A pass changes nothing that it is given, on cases of every kind.
func TestPassesChangeNothingThatTheyAreGiven(t *testing.T) {
	o := Options{seen: newSeen(), Unlabelled: true, Volume: 1}
	for number, pass := range slices.Concat(passesOfOne, passesOfAll) {
		list := func() Dataset {
			return Dataset{
				Root: t.Name(), Layout: LayoutScans, LabelNames: map[uint16]string{3: "liver"}, several: true,
				Cases: []Case{
					{ID: "b", Image: "x/b.nii", Labels: "x/l.nii", folders: []string{"x"}, drawn: []uint16{3},
						unnamed: true},
					{ID: "a", Image: "x/a_ct.nii", Labels: "m", Masks: []Mask{{Path: "m/s.nii", Name: "spleen"}},
						folders: []string{"x"}},
					{ID: "c", Image: "y/c.nii", folders: []string{"y"}},
				},
			}
		}
		given, unchanged := list(), list()
		after, err := pass(given, o)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(given, unchanged) {
			t.Errorf("pass %d changed its list to %+v", number, given)
		}
		if len(after.Cases) != 3 {
			t.Errorf("pass %d left %d cases", number, len(after.Cases))
		}
	}
}

// Every pass has something to say of these cases: none of them can be left out unnoticed.
func TestPassesFindOut(t *testing.T) {
	o := Options{seen: newSeen()}
	d := &Dataset{
		Root: "r", Layout: LayoutScans, LabelNames: map[uint16]string{3: "liver"},
		Cases: []Case{
			{ID: "b", Image: "x/b_pet.nii", Labels: "x/l.nii", folders: []string{"x"}},
			{ID: "a", Image: "x/a.nii", Labels: "m", Masks: []Mask{{Path: "m/s.nii", Name: "spleen"}},
				folders: []string{"x"}},
			{ID: "c", Image: "y/c.nii", folders: []string{"y"}},
		},
	}
	for _, passes := range [][]pass{passesOfOne, passesOfAll} {
		var err error
		if d, err = d.through(passes, o); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := d.Cases[0], d.Cases[1], d.Cases[2]
	switch {
	case a.ID != "a" || b.ID != "b" || c.ID != "c":
		t.Errorf("order: %s, %s, %s", a.ID, b.ID, c.ID)
	case b.modality.Name != "PT":
		t.Errorf("modality of b: %+v", b.modality)
	case a.Patient != "folder x" || b.Patient != "folder x" || c.Patient != "" || len(d.Notes) != 1:
		t.Errorf("patients %q, %q, %q; notes %q", a.Patient, b.Patient, c.Patient, d.Notes)
	case a.Masks[0].Label != 4 || d.LabelNames[4] != "spleen":
		t.Errorf("masks: %+v, names %v", a.Masks, d.LabelNames)
	case !slices.Equal(b.drawn, []uint16{3}) || !slices.Equal(b.undrawn, []uint16{4}) ||
		!slices.Equal(a.undrawn, []uint16{3}):
		t.Errorf("drawn %v, undrawn %v and %v", b.drawn, a.undrawn, b.undrawn)
	case b.site != "r/x":
		t.Errorf("site %q", b.site)
	}
}
