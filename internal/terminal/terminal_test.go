package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vbauerster/mpb/v8"
)

func TestTableAlignsByWidthOnScreen(t *testing.T) {
	var b bytes.Buffer
	err := Table(&b, TableData{
		Title: "Per label", Header: []string{"name", "DSC"}, Right: []bool{false, true},
		Rows:  [][]string{{"Bauchspeicheldrüse", "0.8"}, {"膵臓", "0.25 ± 0.1"}, {"e\x1b\u202e\n"}},
		Notes: []string{"a note"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `Per label
name                       DSC
──────────────────  ──────────
Bauchspeicheldrüse         0.8
膵臓                0.25 ± 0.1
e\x1b\u202e
a note

`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTableWithoutHeader(t *testing.T) {
	var b bytes.Buffer
	if err := Table(&b, TableData{Rows: [][]string{{"cores", "2"}, {"memory", "15 GiB"}}}); err != nil {
		t.Fatal(err)
	}
	if want := "cores   2\nmemory  15 GiB\n\n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTableFitsANarrowTerminal(t *testing.T) {
	data := TableData{
		Header: []string{"path", "ASSD (mm)", "problems"}, Right: []bool{false, true, false},
		Rows: [][]string{{"imagesTr/pancreas_001.nii.gz", "12.25", "no foreground; another grid than its scan"},
			{"膵臓", "1", ""}},
	}
	for columns, want := range map[int]string{
		40: `path           ASSD (mm)  problems
─────────────  ─────────  ──────────────
imagesTr/panc      12.25  no foreground;
reas_001.nii.             another grid
gz                        than its scan
膵臓                   1

`,
		10: `path           ASSD  problems
               (mm)
────────────  ─────  ───────────
imagesTr/pan  12.25  no
creas_001.ni         foreground;
i.gz                 another
                     grid than
                     its scan
膵臓              1

`,
	} {
		var b bytes.Buffer
		if err := table(&b, data, columns); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", columns, b.String(), want)
		}
	}
	var wide, unlimited bytes.Buffer
	if err := errors.Join(table(&wide, data, 1000), table(&unlimited, data, 0)); err != nil ||
		wide.String() != unlimited.String() {
		t.Errorf("%v; got\n%s\nand\n%s", err, wide.String(), unlimited.String())
	}
}

func TestRemarksGoBelowOnANarrowTerminal(t *testing.T) {
	data := TableData{
		Header: []string{"path", "ASSD (mm)", "problems"}, Right: []bool{false, true}, Remarks: true,
		Rows: [][]string{{"pancreas_001.nii.gz", "12.25", "no foreground; another grid than its scan"},
			{"膵臓", "1", ""}},
	}
	for columns, want := range map[int]string{
		40: `path                 ASSD (mm)
───────────────────  ─────────
pancreas_001.nii.gz      12.25
  no foreground; another grid than its
  scan
膵臓                         1

`,
		80: `path                 ASSD (mm)  problems
───────────────────  ─────────  ─────────────────────────────────────────
pancreas_001.nii.gz      12.25  no foreground; another grid than its scan
膵臓                         1

`,
	} {
		var b bytes.Buffer
		if err := table(&b, data, columns); err != nil || b.String() != want {
			t.Errorf("%d columns: %v, got\n%s\nwant\n%s", columns, err, b.String(), want)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTableReportsWriteErrors(t *testing.T) {
	if err := Table(failing{}, TableData{Header: []string{"a"}}); err == nil {
		t.Error("a failed write went unnoticed")
	}
}

func TestLinesAreFew(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := NewProgress(&b, "pretrain", 100).(*progress)
	p.now, p.start, p.last = func() time.Time { return now }, now, now
	p.Skip(50)
	for n := range 40 {
		now = now.Add(time.Second)
		p.Describe("loss 0.5")
		p.Add(1)
		if n == 7 {
			p.Note("validation: 0.8")
		}
	}
	p.Finish()
	p.Finish()
	p.Add(1)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 10 {
		t.Errorf("%d lines in 40 s:\n%s", len(lines), b.String())
	}
	if lines[0] != "pretrain: 55/100  loss 0.5  45.0 s left" || lines[1] != "validation: 0.8" ||
		lines[9] != "pretrain: 90/100  loss 0.5  in 40.0 s" {
		t.Errorf("got\n%s", b.String())
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("escape codes in a file")
	}
}

// Work that is refused before it begins has no end to be told of.
func TestNothingDoneIsNoLine(t *testing.T) {
	var b bytes.Buffer
	NewProgress(&b, "prepare", 99).Finish()
	if b.Len() > 0 {
		t.Errorf("%q", b.String())
	}
}

// The end is told once, however late it comes.
func TestLastLineIsWrittenOnce(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	p := NewProgress(&b, "predict", 2).(*progress)
	p.now, p.start, p.last = func() time.Time { return now }, now, now
	for range 2 {
		now = now.Add(time.Minute)
		p.Add(1)
	}
	p.Finish()
	if want := "predict: 1/2  1 min 00 s left\npredict: 2/2  in 2 min 00 s\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestBarShowsTheState(t *testing.T) {
	for _, done := range []int{2, 5} {
		var b bytes.Buffer
		p := NewProgress(&b, "prepare", 5).(*progress)
		p.bar = newBar(&b, p, mpb.WithAutoRefresh(), mpb.WithRefreshRate(5*time.Millisecond))
		p.Describe("case_7")
		p.Add(done)
		p.Note("case_3: no labels")
		time.Sleep(50 * time.Millisecond)
		p.Finish()
		p.Finish()
		for _, want := range []string{"prepare", "━", "/5", "case_7", "case_3: no labels\n"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%d done: no %q in %q", done, want, b.String())
			}
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 450 * time.Millisecond: "450 ms", 12345 * time.Millisecond: "12.3 s",
		59990 * time.Millisecond: "1 min 00 s",
		200 * time.Second:        "3 min 20 s", 65 * time.Minute: "1 h 05 min", 51 * time.Hour: "2 d 3 h",
		-time.Minute: "-1 min 00 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1<<20 - 1: "1.0 MiB",
		491 << 20: "491 MiB", 3 << 40: "3.0 TiB", -2048: "-2.0 KiB", 1<<63 - 1: "8.0 EiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
