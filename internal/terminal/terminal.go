// Package terminal writes for people who watch: tables, progress, durations and sizes.
//
// Start at [Table] and [NewProgress]. On a terminal there are bars and emphasis; into a file or a pipe the same things are plain lines without
// escape codes, few enough to read. The environment variable NO_COLOR turns emphasis off. The package knows nothing of what it shows.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// IsTerminal tells whether somebody may be watching what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// emphasise sets text in bold where w is a terminal.
func emphasise(w io.Writer, text string) string {
	if text == "" || !IsTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// TableData is what [Table] writes. Right holds the columns that are aligned to the right; it may be shorter than Header.
type TableData struct {
	Title  string
	Header []string
	Rows   [][]string
	Right  []bool
	Notes  []string
}

// Table writes rows under a header, columns aligned by their width on the screen, followed by an empty line.
func Table(w io.Writer, t TableData) error {
	width := make([]int, len(t.Header))
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		for n := range min(len(row), len(width)) {
			width[n] = max(width[n], runewidth.StringWidth(clean(row[n])))
		}
	}
	line := func(cells []string) string {
		var b strings.Builder
		for n := range width {
			cell := ""
			if n < len(cells) {
				cell = clean(cells[n])
			}
			if n > 0 {
				b.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[n]-runewidth.StringWidth(cell))
			if n < len(t.Right) && t.Right[n] {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	var b strings.Builder
	if t.Title != "" {
		b.WriteString(emphasise(w, clean(t.Title)) + "\n")
	}
	b.WriteString(line(t.Header) + "\n")
	rules := make([]string, len(width))
	for n, columns := range width {
		rules[n] = strings.Repeat("─", columns)
	}
	b.WriteString(line(rules) + "\n")
	for _, row := range t.Rows {
		b.WriteString(line(row) + "\n")
	}
	for _, note := range t.Notes {
		b.WriteString(clean(note) + "\n")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// clean keeps what came out of a file, a patient's name say, from moving the cursor or recolouring the screen.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// Duration writes a time the way people say it: 450 ms, 12.3 s, 3 min 20 s, 1 h 05 min, 2 d 3 h.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-d)
	}
	switch s := d.Round(time.Second); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 59950*time.Millisecond:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case s < time.Hour:
		return fmt.Sprintf("%d min %02d s", s/time.Minute, s%time.Minute/time.Second)
	case s < 24*time.Hour:
		return fmt.Sprintf("%d h %02d min", s/time.Hour, s%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d d %d h", s/(24*time.Hour), s%(24*time.Hour)/time.Hour)
	}
}

// Bytes writes a size in powers of 1024: 512 B, 1.5 KiB, 491 MiB.
func Bytes(n int64) string {
	if n < 0 {
		return "-" + Bytes(-n)
	}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.5 && unit < 5 {
		v, unit = v/1024, unit+1
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[unit])
	}
	return fmt.Sprintf("%.0f %ciB", v, "KMGTPE"[unit])
}
