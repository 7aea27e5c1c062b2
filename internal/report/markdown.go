package report

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/table"
)

// markdown collects a page and counts its pictures.
type markdown struct {
	strings.Builder
	folder, files string
	pictures      int
}

// Markdown writes the report in GitHub's notation. Pictures and charts become PNG and SVG files in
// folder/files, which exists, and are linked from there.
func (r Report) Markdown(w io.Writer, folder, files string) error {
	m := &markdown{folder: folder, files: files}
	fmt.Fprintf(m, "# %s\n\n%s\n", r.Title, r.Subtitle)
	for _, s := range r.Sections {
		fmt.Fprintf(m, "\n## %s\n", s.Title)
		for _, block := range s.Blocks {
			m.WriteString("\n")
			if err := block.markdown(m); err != nil {
				return fmt.Errorf("section %s: %w", s.Title, err)
			}
		}
	}
	_, err := io.WriteString(w, m.String())
	return err
}

// picture writes a file and a link to it.
func (m *markdown) picture(data []byte, extension, caption string) error {
	m.pictures++
	name := fmt.Sprintf("%02d-%s.%s", m.pictures, short(slug(caption)), extension)
	if err := atomicfile.WriteBytes(filepath.Join(m.folder, m.files, name), data); err != nil {
		return err
	}
	fmt.Fprintf(m, "![%s](%s/%s)\n", strings.NewReplacer("[", "(", "]", ")", "\n", " ").Replace(caption), m.files, name)
	return nil
}

// short cuts a file name between words.
func short(name string) string {
	for len(name) > 48 {
		cut := strings.LastIndexByte(name, '-')
		if cut < 1 {
			return name[:48]
		}
		name = name[:cut]
	}
	return name
}

func (t Text) markdown(m *markdown) error {
	fmt.Fprintf(m, "%s\n", strings.TrimSpace(string(t)))
	return nil
}

func (f Facts) markdown(m *markdown) error {
	for _, fact := range f {
		fmt.Fprintf(m, "- %s: %s\n", fact.Name, fact.Value)
	}
	return nil
}

func (t Table) markdown(m *markdown) error { return t.Markdown(m) }

func (f Folds) markdown(m *markdown) error {
	m.WriteString("| data |")
	for _, i := range f.Initialisations {
		fmt.Fprintf(m, " %s |", i)
	}
	m.WriteString("\n|---" + strings.Repeat("|---", len(f.Initialisations)) + "|\n")
	for row, fraction := range f.Fractions {
		fmt.Fprintf(m, "| %s |", table.Percent(fraction))
		best := f.best(row)
		for n, c := range f.Cells[row] {
			mean := table.Rounded(c.Spread.Mean, f.column().Digits)
			if n == best {
				mean = "**" + mean + "**"
			}
			if !math.IsNaN(c.Spread.SD) {
				mean += " ± " + table.Rounded(c.Spread.SD, f.column().Digits)
			}
			if gain, p := f.change(c); gain != "" {
				mean += " (" + strings.TrimSuffix(gain+", "+p, ", ") + ")"
			}
			fmt.Fprintf(m, " %s |", mean)
		}
		m.WriteString("\n")
	}
	for n, note := range table.FoldNotes(f.FoldTable) {
		if n > 0 {
			note = "In brackets, " + note
		}
		fmt.Fprintf(m, "\n%s\n", note)
	}
	m.WriteString("\n")
	return m.picture(standalone(f.svg()), "svg", f.column().Title+" by share of the training data")
}

func (c Charts) markdown(m *markdown) error {
	for _, chart := range c {
		if err := m.picture(standalone(chart.svg()), "svg", chart.Title); err != nil {
			return err
		}
	}
	return nil
}

func (p Pictures) markdown(m *markdown) error {
	for _, picture := range p {
		if picture.Image == nil {
			return fmt.Errorf("picture %q has no image", picture.Caption)
		}
		var data bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&data, picture.Image); err != nil {
			return fmt.Errorf("picture %q: %w", picture.Caption, err)
		}
		if err := m.picture(data.Bytes(), "png", picture.Caption); err != nil {
			return err
		}
		fmt.Fprintf(m, "\n%s\n\n", picture.Caption)
	}
	return nil
}

func (c Code) markdown(m *markdown) error {
	fence := "```"
	for strings.Contains(c.Text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m, "%s:\n\n%s\n%s\n%s\n", c.Title, fence, strings.TrimRight(c.Text, "\n"), fence)
	return nil
}
