package config

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

const (
	// maxDepth bounds how deep lists and mappings are nested on one line. What a person writes is
	// less than ten deep. The parser's memory grows with the square of the depth: 50,000 brackets
	// take 3.7 GiB. Nesting by indentation needs no bound of its own: its depth is at most the
	// square root of the size.
	maxDepth = 64
	// maxKeys and maxItems bound the keys and the items of lists. The parser's time grows with the
	// square of their number: 20,000 keys or 400,000 items take seconds.
	maxKeys  = 4_000
	maxItems = 50_000
	// maxBlank bounds the lines that hold nothing. The parser looks at all those before each one of
	// a text that goes over lines: 200,000 of them take an hour.
	maxBlank = 4_000
)

// checkSize refuses a text that would cost too much to parse. It looks at bytes alone.
func checkSize(name string, data []byte) error {
	if len(data) > maxSize {
		return fmt.Errorf("%s holds %d bytes: not a config file", name, len(data))
	}
	var c counter
	number := 0
	for line := range bytes.Lines(data) {
		number++
		c.line(line)
		problem := ""
		switch {
		case c.deepest > maxDepth:
			problem = fmt.Sprintf("lists or mappings are nested more than %d deep", maxDepth)
		case c.keys > maxKeys:
			problem = fmt.Sprintf("more than %d keys", maxKeys)
		case c.items > maxItems:
			problem = fmt.Sprintf("more than %d items of lists", maxItems)
		case c.blank > maxBlank:
			problem = fmt.Sprintf("more than %d blank lines", maxBlank)
		default:
			continue
		}
		return fmt.Errorf("%s:%d: %s: not a config file", name, number, problem)
	}
	return nil
}

// counter counts what the lines of a text hold.
type counter struct {
	depth, deepest int // of brackets and braces, and of dashes within a line
	keys, items    int
	blank          int // lines, where a carriage return alone ends one, too
}

// line follows brackets, braces, colons, commas and dashes. Quotes and comments are passed over. A
// quote that is not closed is taken to end with its line.
func (c *counter) line(line []byte) {
	var quote byte
	dashes, before := 0, byte(' ')
	if len(bytes.TrimSpace(line)) == 0 {
		c.blank += max(1, bytes.Count(line, []byte{'\r'}))
	}
	ends := func(at int) bool { // the sign stands alone, as YAML wants it
		return at+1 == len(line) || bytes.IndexByte([]byte(" \t\r\n"), line[at+1]) >= 0
	}
	for at, b := range line {
		switch {
		case quote != 0:
			if b == quote && (quote == '\'' || before != '\\') {
				quote = 0
			}
		case b == '#' && (before == ' ' || before == '\t'):
			return
		case (b == '"' || b == '\'') && bytes.IndexByte([]byte(" \t[{,:"), before) >= 0:
			quote = b
		case b == '[' || b == '{':
			c.depth++
		case b == ']' || b == '}':
			c.depth = max(c.depth-1, 0)
		case b == ',':
			c.items++
		case b == ':' && (ends(at) || before == '"' || before == '\''):
			c.keys++
		case (b == '-' || b == '?') && (before == ' ' || before == '\t') && ends(at):
			dashes++
			c.items++
		}
		if c.deepest = max(c.deepest, c.depth+dashes); c.deepest > maxDepth {
			return
		}
		before = b
	}
}

// Unmarshal decodes YAML of any form into the value that v points to. Texts that would cost too
// much to parse are refused, as [Parse] does, and aliases, which can stand for more than any memory
// holds. Name stands for the file in errors.
func Unmarshal(name string, data []byte, v any) error {
	if err := checkSize(name, data); err != nil {
		return err
	}
	file, err := parse(name, data)
	if err != nil {
		return err
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
