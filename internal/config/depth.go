package config

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxDepth bounds how deep lists and mappings are nested on one line. What a person writes is less
// than ten deep. The parser's memory grows with the square of the depth: 50,000 brackets take 3.7
// GiB. Nesting by indentation needs no bound of its own: its depth is at most the square root of
// the size.
const maxDepth = 64

// checkSize refuses a text that would cost too much to parse. It looks at bytes alone.
func checkSize(name string, data []byte) error {
	if len(data) > maxSize {
		return fmt.Errorf("%s holds %d bytes: not a config file", name, len(data))
	}
	depth, number := 0, 0
	for line := range bytes.Lines(data) {
		number++
		if depth = nesting(line, depth); depth > maxDepth {
			return fmt.Errorf("%s:%d: lists or mappings are nested more than %d deep: not a config file", name, number, maxDepth)
		}
	}
	return nil
}

// nesting follows brackets, braces and the dashes of lists within a line, from the depth of the
// lines before, and gives the depth at its end; more than maxDepth where it once was so deep.
// Quotes and comments are passed over. A quote that is not closed is taken to end with its line.
func nesting(line []byte, depth int) int {
	var quote byte
	dashes, before := 0, byte(' ')
	for at, c := range line {
		switch {
		case quote != 0:
			if c == quote && (quote == '\'' || before != '\\') {
				quote = 0
			}
		case c == '#' && (before == ' ' || before == '\t'):
			return depth
		case (c == '"' || c == '\'') && bytes.IndexByte([]byte(" \t[{,:"), before) >= 0:
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth = max(depth-1, 0)
		case (c == '-' || c == '?') && (before == ' ' || before == '\t') && at+1 < len(line) && (line[at+1] == ' ' || line[at+1] == '\t'):
			dashes++
		}
		if depth+dashes > maxDepth {
			return maxDepth + 1
		}
		before = c
	}
	return depth
}

// Unmarshal decodes YAML of any form into the value that v points to. Texts that would cost too
// much to parse are refused, as [Parse] does, and aliases, which can stand for more than any memory
// holds. Name stands for the file in errors.
func Unmarshal(name string, data []byte, v any) error {
	if err := checkSize(name, data); err != nil {
		return err
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return fmt.Errorf("%s: not valid YAML: %w", name, err)
	}
	for _, d := range file.Docs {
		found := &aliases{}
		if d.Body != nil {
			ast.Walk(found, d.Body)
		}
		if found.any {
			return fmt.Errorf("%s: aliases are not supported", name)
		}
	}
	return yaml.Unmarshal(data, v)
}

// aliases looks for an alias in a tree.
type aliases struct{ any bool }

// Visit implements [ast.Visitor].
func (a *aliases) Visit(n ast.Node) ast.Visitor {
	if _, is := n.(*ast.AliasNode); is {
		a.any = true
	}
	return a
}
