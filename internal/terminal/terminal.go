// Package terminal writes for people who watch: tables, progress, durations and sizes.
//
// Start at [NewScreen], [Table] and [NewProgress]. On a terminal there are bars and emphasis; into
// a file or a pipe the same things are plain lines without escape codes, few enough to read. The
// environment variable NO_COLOR turns emphasis off. The package knows nothing of what it shows.
package terminal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// IsTerminal tells whether somebody may be watching what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// emphasise sets text in bold where w is a terminal.
func emphasise(w io.Writer, text string) string {
	if text == "" || !IsTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// TableData is what [Table] writes. Right holds the columns that are aligned to the right; it may
// be shorter than Header, which may be left out. With Remarks the last column holds sentences.
type TableData struct {
	Title   string
	Header  []string
	Rows    [][]string
	Right   []bool
	Notes   []string
	Remarks bool
}

// Table writes rows under a header, columns aligned by their width on the screen, followed by an
// empty line. On a terminal that is too narrow for the table, remarks go below their rows, and
// cells are broken into several lines; what is written elsewhere is as wide as it is.
func Table(w io.Writer, t TableData) error {
	columns := 0
	if f, ok := file(w); ok && IsTerminal(w) {
		columns, _, _ = term.GetSize(int(f.Fd())) // 0 where it cannot be told
	}
	return table(w, t, columns)
}

// gap is the space between two columns.
const gap = "  "

// table writes a table that is at most so many columns of the screen wide, if that can be; 0: any
// width.
func table(w io.Writer, t TableData, columns int) error {
	header := t.Header
	rows := append([][]string{header}, t.Rows...)
	n := 0
	for i, row := range rows {
		rows[i] = make([]string, len(row))
		for c, cell := range row {
			rows[i][c] = clean(cell)
		}
		n = max(n, len(row))
	}
	right := make([]bool, n)
	copy(right, t.Right)
	width := fit(rows, right, 0)
	remarks := make([]string, len(rows))
	if t.Remarks && columns > 0 && sum(width)+len(gap)*(n-1) > columns {
		n--
		right = right[:n]
		for i, row := range rows {
			if rows[i] = row[:min(n, len(row))]; i > 0 && len(row) > n {
				remarks[i] = row[n]
			}
		}
	}
	width = fit(rows, right, columns)
	b := bufio.NewWriter(past(w)) // the table may be of a hundred thousand rows
	if t.Title != "" {
		b.WriteString(emphasise(w, clean(t.Title)) + "\n")
	}
	for i, row := range rows {
		if i > 0 || len(header) > 0 {
			writeRow(b, row, width, right)
		}
		if remarks[i] != "" {
			for _, line := range Wrap(remarks[i], max(columns-len(gap), 12)) {
				b.WriteString(gap + line + "\n")
			}
		}
		if i == 0 && len(header) > 0 {
			rules := make([]string, n)
			for c := range rules {
				rules[c] = strings.Repeat("─", width[c])
			}
			b.WriteString(strings.Join(rules, gap) + "\n")
		}
	}
	for _, note := range t.Notes {
		b.WriteString(clean(note) + "\n")
	}
	b.WriteString("\n")
	return b.Flush()
}

// fit chooses the width of each column: that of its widest cell, and if all of them together are
// too wide, less for the widest. Numbers stay whole; other columns keep at least twelve.
func fit(rows [][]string, right []bool, columns int) []int {
	width, least := make([]int, len(right)), make([]int, len(right))
	for _, row := range rows {
		for c, cell := range row {
			width[c] = max(width[c], runewidth.StringWidth(cell))
			for word := range strings.FieldsSeq(cell) {
				least[c] = max(least[c], runewidth.StringWidth(word))
			}
		}
	}
	total := len(gap)*(len(width)-1) + sum(width)
	for c := range width {
		if !right[c] {
			least[c] = min(least[c], 12)
		}
	}
	for ; columns > 0 && total > columns; total-- {
		widest := -1
		for c := range width {
			if width[c] > least[c] && (widest < 0 || width[c] > width[widest]) {
				widest = c
			}
		}
		if widest < 0 {
			break
		}
		width[widest]--
	}
	return width
}

func sum(width []int) (all int) {
	for _, n := range width {
		all += n
	}
	return all
}

// writeRow writes a row on as many lines as its longest cell needs.
func writeRow(b *bufio.Writer, row []string, width []int, right []bool) {
	lines := 1
	cells := make([][]string, len(width))
	for c := range row {
		cells[c] = Wrap(row[c], width[c])
		lines = max(lines, len(cells[c]))
	}
	for i := range lines {
		var line strings.Builder
		for c := range width {
			cell := ""
			if i < len(cells[c]) {
				cell = cells[c][i]
			}
			if c > 0 {
				line.WriteString(gap)
			}
			pad := strings.Repeat(" ", width[c]-runewidth.StringWidth(cell))
			if right[c] {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// Wrap breaks a text into lines of at most the width: between words, and inside those that are
// longer.
func Wrap(text string, width int) (lines []string) {
	if runewidth.StringWidth(text) <= width {
		return []string{text}
	}
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && runewidth.StringWidth(line+" "+word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for runewidth.StringWidth(word) > width {
			head := runewidth.Truncate(word, width, "")
			lines, word = append(lines, head), word[len(head):]
		}
		line = word
	}
	return append(lines, line)
}

// clean keeps what came out of a file, a patient's name say, from moving the cursor, recolouring
// the screen or turning the direction of the text. What is of several lines becomes one.
func clean(text string) string {
	if strings.ContainsAny(text, "\r\n\t") {
		text = oneLine.Replace(text)
	}
	return safetext.Text(text)
}

var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")

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
