package prepared

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/volume"
)

// filled gives every field that a record has a value of its own, also those that are added later.
func filled(t *testing.T, id string) Record {
	t.Helper()
	next := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		next++
		switch v.Kind() {
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				v.Set(reflect.ValueOf(time.Unix(int64(1e9+next), int64(next)).UTC()))
				return
			}
			for n := range v.NumField() {
				fill(v.Field(n))
			}
		case reflect.Array:
			for n := range v.Len() {
				fill(v.Index(n))
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Map:
			v.Set(reflect.MakeMap(v.Type()))
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key)
			fill(value)
			v.SetMapIndex(key, value)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.String:
			v.SetString(fmt.Sprintf("text \xff %d", next))
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(next))
		case reflect.Uint16:
			v.SetUint(uint64(next))
		case reflect.Float64:
			v.SetFloat(1 / float64(next))
		case reflect.Bool:
			v.SetBool(true)
		default:
			t.Fatalf("a record has a field of %s, which this test does not know", v.Type())
		}
	}
	var r Record
	fill(reflect.ValueOf(&r).Elem())
	r.ID = id
	return r
}

func TestTableKeepsEveryField(t *testing.T) {
	same := filled(t, "b")
	same.Original, same.Box, same.LabelCounts, same.LabelNames, same.Notes, same.Sources = same.Grid, nil, nil, nil,
		nil, nil
	records := []Record{filled(t, "a"), same, {ID: "c"}}
	e := &tableEncoder{known: map[string]uint64{}}
	for _, want := range records {
		text := e.record(nil, want)
		d := tableDecoder{table: &table{text: string(text), shared: e.shared}}
		if got := d.record(true); !reflect.DeepEqual(got, want) || d.at != len(text) || d.bad {
			t.Errorf("wrote\n%+v\nread\n%+v", want, got)
		}
		d.at, want.Sources = 0, nil
		if got := d.record(false); !reflect.DeepEqual(got, want) || d.at != len(text) || d.bad {
			t.Errorf("without sources: wrote\n%+v\nread\n%+v", want, got)
		}
	}
}

// Whatever a table says, reading it ends without a fault and without taking much memory.
func TestDamagedTables(t *testing.T) {
	_, whole := tableStore(t)
	text := string(encodeTable(whole.records.all(), whole.Len()))
	if _, err := parseTable(text); err != nil {
		t.Fatal(err)
	}
	for n := range len(text) {
		if _, err := parseTable(text[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken for a table", n, len(text))
		}
		for _, bit := range []byte{1, 0x80} {
			parseTable(text[:n] + string([]byte{text[n] ^ bit}) + text[n+1:])
		}
	}
	twice := slices.Repeat(slices.Collect(whole.Records()), 2)
	if _, err := parseTable(string(encodeTable(slices.Values(twice), len(twice)))); err == nil {
		t.Error("a table with each case twice is read")
	}
}

func FuzzTable(f *testing.F) {
	f.Add(string(encodeTable(slices.Values([]Record{{ID: "a"}}), 1)))
	f.Fuzz(func(t *testing.T, text string) {
		if table, err := parseTable(text); err == nil {
			for n := range table.len() {
				if _, found := table.find(table.id(n)); !found {
					t.Error("a case is not found by its name")
				}
			}
		}
	})
}

// tableStore is a store with a table, as large ones have it.
func tableStore(t *testing.T) (dir string, s *Store) {
	t.Helper()
	v, l := oblong(t, [3]int{9, 8, 7})
	dir = t.TempDir()
	w, err := NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	w.many = 2
	for _, in := range []Input{{ID: "a", Image: v, Labels: l, Patient: "p", Notes: []string{"odd"}},
		{ID: "b", Image: v, Patient: "p"}, {ID: "c", Image: v, Origin: "series 1"}} {
		if _, err := w.Add(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return dir, s
}

// A store with a table has the same cases and the same fingerprint as one without.
func TestManifestWithTable(t *testing.T) {
	dir, s := tableStore(t)
	var records []Record
	for r := range s.Records() {
		records = append(records, r)
		data, err := os.ReadFile(recordPath(dir, r.ID))
		var file recordFile
		if err != nil || json.Unmarshal(data, &file) != nil || !reflect.DeepEqual(file.Case, r) {
			t.Errorf("%s: the table says %+v, its own record %+v (%v)", r.ID, r, file.Case, err)
		}
		if got, found := s.Record(r.ID); !found || !reflect.DeepEqual(got, r) {
			t.Errorf("record %s: %+v", r.ID, got)
		}
	}
	if _, found := s.Record("bb"); found || s.Len() != 3 || len(records) != 3 {
		t.Error("wrong cases")
	}
	if want := fingerprint(volume.DefaultPreparation(), slices.Values(records)); s.Fingerprint() != want {
		t.Errorf("fingerprint %s, want %s", s.Fingerprint(), want)
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	s.Close()

	tables, _ := filepath.Glob(filepath.Join(dir, "*"+tableSuffix))
	if len(tables) != 1 {
		t.Fatalf("tables: %v", tables)
	}
	text, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, len(text) / 2, len(text) - 1} {
		hurt := slices.Clone(text)
		hurt[at] ^= 4
		if err := os.WriteFile(tables[0], hurt, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "is not what was written") {
			t.Errorf("opened with byte %d of the table changed: %v", at, err)
		}
	}
	if err := os.WriteFile(tables[0], text, 0o644); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	for old, new := range map[string]string{s.Fingerprint(): strings.Repeat("0", 32), `"cases": 3`: `"cases": 4`,
		"cases-": "../cases-", "-125": "-124"} {
		if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(strings.Replace(string(manifest), old, new, 1)),
			0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "manifest.json is damaged") {
			t.Errorf("opened with %s for %s: %v", new, old, err)
		}
	}

	// The next run replaces the table, or does without one.
	w, err := NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for r := range s.Records() {
		if _, kept := w.Keep(Input{ID: r.ID, Group: r.Group, Patient: r.Patient, Origin: r.Origin, Undrawn: r.Undrawn},
			nil); !kept {
			t.Errorf("%s is not kept", r.ID)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+tableSuffix)); len(left) != 0 {
		t.Errorf("tables that nobody needs: %v", left)
	}
	if again, err := Open(dir); err != nil || again.Fingerprint() != s.Fingerprint() {
		t.Errorf("without a table: %v", err)
	} else {
		again.Close()
	}
}

// Of many cases that lack their voxels, the first is named, whichever core has seen it.
func TestFirstCaseWithoutVoxels(t *testing.T) {
	one := Record{Bytes: 2*27 + 2, Scan: "digest"}
	one.Shape = [3]int{3, 3, 3}
	one.Affine = volume.Scaling([3]float64{1, 1, 1})
	one.Original, one.Spacing = one.Grid, one.Grid.Spacing()
	const cases = 1000
	records := make([]Record, cases)
	for n := range records {
		records[n] = one
		records[n].ID = fmt.Sprintf("case_%04d", n)
	}
	whole, err := parseTable(string(encodeTable(slices.Values(records), cases)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, casesFolder), 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(n int) {
		if err := os.WriteFile(voxelPath(dir, records[n].ID), make([]byte, one.Bytes), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		write(n)
	}
	for range 20 {
		if err := checkFiles(dir, whole); err == nil || !strings.HasPrefix(err.Error(), "case case_0100: ") {
			t.Fatal(err)
		}
	}
	for n := range cases {
		write(n)
	}
	if err := checkFiles(dir, whole); err != nil {
		t.Fatal(err)
	}
}

// The fingerprint tells which labels were emptied.
func TestFingerprintOfEmptied(t *testing.T) {
	of := func(emptied ...uint16) string {
		return fingerprint(volume.DefaultPreparation(), slices.Values([]Record{{ID: "a", Emptied: emptied}}))
	}
	if of(2) == of() || of(2) == of(3) {
		t.Error("the fingerprint does not follow which labels were emptied")
	}
}
