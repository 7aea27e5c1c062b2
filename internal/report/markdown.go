package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/table"
)

// markdown collects a page and its pictures.
type markdown struct {
	strings.Builder
	folder   string            // of the pictures, as the page links them
	pictures map[string][]byte // by the names of their files
}

// Markdown is the report in GitHub's notation. Pictures and charts are linked as PNG and SVG files
// in a folder beside the page, and given by their names.
func (r Report) Markdown(folder string) (page []byte, pictures map[string][]byte, err error) {
	m := &markdown{folder: folder, pictures: map[string][]byte{}}
	fmt.Fprintf(m, "# %s\n\n%s\n", table.EscapeMarkdown(r.Title), paragraph(r.Subtitle))
	for _, s := range r.complete() {
		fmt.Fprintf(m, "\n## %s\n", table.EscapeMarkdown(s.Title))
		for _, block := range s.Blocks {
			m.WriteString("\n")
			if err := block.markdown(m); err != nil {
				return nil, nil, fmt.Errorf("section %s: %w", s.Title, err)
			}
		}
	}
	return []byte(m.String()), m.pictures, nil
}

// opening matches what would begin a list, a heading, a quotation or a rule at the start of a line.
var opening = regexp.MustCompile(`^\s*([#+\-=>]|\d+[.)])`)

// paragraph writes text as a paragraph that is nothing else.
func paragraph(text string) string {
	text = table.EscapeMarkdown(text)
	if at := opening.FindStringIndex(text); at != nil {
		return text[:at[1]-1] + `\` + text[at[1]-1:]
	}
	return text
}

// picture adds a picture and a link to it.
func (m *markdown) picture(data []byte, extension, caption string) {
	name := fmt.Sprintf("%02d-%s.%s", len(m.pictures)+1, short(slug(caption)), extension)
	m.pictures[name] = data
	fmt.Fprintf(m, "![%s](%s/%s)\n", table.EscapeMarkdown(caption), m.folder, name)
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
	for n, p := range t.paragraphs() {
		if n > 0 {
			m.WriteString("\n")
		}
		fmt.Fprintf(m, "%s\n", paragraph(p))
	}
	return nil
}

func (f Facts) markdown(m *markdown) error {
	for _, fact := range f {
		value := table.EscapeMarkdown(fact.Value)
		if fact.isCode() {
			value = "`" + fact.Value + "`"
		}
		fmt.Fprintf(m, "- %s: %s\n", table.EscapeMarkdown(fact.Name), value)
	}
	return nil
}

func (t Table) markdown(m *markdown) error { return t.Markdown(m) }

func (c Charts) markdown(m *markdown) error {
	for _, chart := range c {
		m.picture(standalone(chart.svg()), "svg", chart.caption())
	}
	return nil
}

func (f Figures) markdown(m *markdown) error {
	for _, figure := range f {
		m.picture(standalone(figure.svg()), "svg", figure.caption())
	}
	return nil
}

func (p Pictures) markdown(m *markdown) error {
	for _, picture := range p {
		data, err := picture.png()
		if err != nil {
			return err
		}
		m.picture(data, "png", picture.Caption)
		fmt.Fprintf(m, "\n%s\n\n", paragraph(picture.Caption))
	}
	return nil
}

func (c Code) markdown(m *markdown) error {
	fence := "```"
	for strings.Contains(c.Text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m, "%s:\n\n%s\n%s\n%s\n", table.EscapeMarkdown(c.Title), fence,
		strings.TrimRight(safetext.Lines(c.Text), "\n"), fence)
	return nil
}
