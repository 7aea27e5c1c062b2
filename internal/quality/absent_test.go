package quality

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// What a network could have drawn and did not find has a row, too, and is read back as that.
func TestWhatIsNotFoundHasARow(t *testing.T) {
	names := map[uint16]string{1: "liver", 2: "spleen"}
	liver := Structure{Label: 1, Name: "liver", Voxels: 9, Volume: 20, Height: 5, Components: 1, Largest: 1}
	cases := []Case{{ID: "a", Structures: []Structure{liver}}, {ID: "b"}}
	for n := range cases {
		cases[n].Absent = Absent(cases[n].Structures, []uint16{2, 1}, names)
		cases[n].DSC, cases[n].Agreement = map[uint16]float64{2: 0}, map[uint16]float64{2: 0.25}
	}
	var file bytes.Buffer
	if err := Table(cases, NewSet(cases), nil).CSV(&file); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(file.String()), "\n")[1:]
	want := []string{"a,1,liver,9,20,5,1,1,,,,,", "a,2,spleen,0,0,0,0,",
		"b,1,liver,0,0,0,0,", "b,2,spleen,0,0,0,0,,,,,0.25,0,"}
	if len(rows) != len(want) {
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	for n, row := range rows {
		if !strings.HasPrefix(row, want[n]) || !strings.HasSuffix(row, ",") {
			// the set is too small to say what is unusual
			t.Errorf("row %q, want %q", row, want[n])
		}
	}
	read, err := ReadTable(&file)
	if err != nil || len(read) != 2 {
		t.Fatalf("%+v, %v", read, err)
	}
	for n, c := range read {
		if c.ID != cases[n].ID || len(c.Structures) != len(cases[n].Structures) ||
			!reflect.DeepEqual(c.Absent, cases[n].Absent) || !reflect.DeepEqual(c.Agreement, cases[n].Agreement) ||
			!reflect.DeepEqual(c.DSC, cases[n].DSC) {
			t.Errorf("%+v, want %+v", c, cases[n])
		}
	}
	// what the others have is said beside
	for range Fewest {
		cases = append(cases, Case{ID: "c", Structures: []Structure{liver}})
	}
	cases[1].Absent = cases[1].Absent[:1]
	file.Reset()
	if err := Table(cases, NewSet(cases), nil).CSV(&file); err != nil ||
		!strings.Contains(file.String(), ",\"missing, and 9 of 10 others have it\"") {
		t.Errorf("%v: %s", err, file.String())
	}
}
