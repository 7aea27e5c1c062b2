package dataset

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/standin"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: small files that people and programs write, in JSON and as tables.

// readJSON decodes a file that may be missing.
func readJSON(path string, value any) (found bool, err error) {
	data, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if what := standin.What(data); what != "" {
		return false, &volume.FormatError{Path: path, Problem: what}
	}
	if data, err = utf8JSON(data); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if err := explainJSON(data, json.Unmarshal(data, value)); err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return true, nil
}

// utf8JSON is JSON without the byte order mark that some editors of Windows put before it. Text in
// other encodings is refused: names in it would be learnt as what they are not.
func utf8JSON(data []byte) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	start := string(data[:min(len(data), 2)])
	switch {
	case start == "\xff\xfe" || start == "\xfe\xff" || start == "{\x00" || start == "\x00{":
		return nil, errors.New("is UTF-16, and JSON is UTF-8: save it as UTF-8")
	case !utf8.Valid(data):
		line := 1
		for text := range bytes.Lines(data) {
			if !utf8.Valid(text) {
				break
			}
			line++
		}
		return nil, fmt.Errorf("line %d is not UTF-8, and JSON is: save it as UTF-8", line)
	}
	return data, nil
}

// explainJSON turns an error of encoding/json into one for people who wrote the file: with the
// line, and in the file's own words.
func explainJSON(data []byte, err error) error {
	line := func(offset int64) int { return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n")) }
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("is not JSON, line %d: %w", line(syntax.Offset), err)
	case errors.As(err, &kind):
		expected := map[reflect.Kind]string{reflect.Map: "an object", reflect.Struct: "an object",
			reflect.Slice: "a list", reflect.String: "a text"}[kind.Type.Kind()]
		what := "the whole"
		if kind.Field != "" {
			what = strconv.Quote(kind.Field)
		}
		return fmt.Errorf("line %d: %s must be %s, not %s", line(kind.Offset), what, expected, kind.Value)
	}
	return err
}

// separators are what may stand between the columns of a table that a person makes. Excel writes a
// semicolon where the comma is that of decimals.
var separators = []rune{',', ';', '\t'}

// table reads a file of columns with names, and the names. Of the separators that may stand between
// columns it takes the one that most often does so in the first line.
func table(text []byte, separators ...rune) (rows []map[string]string, header []string, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	first, _, _ := bytes.Cut(text, []byte("\n"))
	c := csv.NewReader(bytes.NewReader(text))
	c.Comma = slices.MaxFunc(separators, func(a, b rune) int {
		return bytes.Count(first, []byte(string(a))) - bytes.Count(first, []byte(string(b)))
	})
	c.LazyQuotes, c.TrimLeadingSpace, c.FieldsPerRecord = true, true, -1
	all, err := c.ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, errors.New("is empty")
	}
	for _, name := range all[0] {
		header = append(header, strings.ToLower(strings.TrimSpace(name)))
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for n, cell := range cells[:min(len(cells), len(header))] {
			row[header[n]] = strings.TrimSpace(cell)
		}
		rows = append(rows, row)
	}
	return rows, header, nil
}
