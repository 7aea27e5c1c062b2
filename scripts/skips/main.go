// Command skips reads what `go test -json` writes, prints what go test would have printed, and
// fails where a test was skipped that ought to run. A green run says little when nobody sees what
// it left out.
//
//	go test -json ./... | go run ./scripts/skips
//
// What may be skipped is in the table of allowed.go, with the place where it runs instead. Tests
// that run in a process of their own are seen where their parent uses internal/childtest.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	c := newCheck(os.Stdout)
	if err := c.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
	if !c.close() {
		os.Exit(1)
	}
}

// An event is a line of `go test -json`; `go doc test2json` tells what it says.
type event struct {
	Action, Package, Test, Output string
}

type test struct{ pkg, name string }

func (t test) compare(u test) int {
	return cmp.Or(strings.Compare(t.pkg, u.pkg), strings.Compare(t.name, u.name))
}

// A check follows the events.
type check struct {
	to      io.Writer
	output  map[test]*strings.Builder
	skipped []skip
	failed  bool
	passed  int
}

// A skip is a test that was skipped, and what it said.
type skip struct {
	test
	reason string
}

func newCheck(to io.Writer) *check { return &check{to: to, output: map[test]*strings.Builder{}} }

// read follows all events. Any other line is printed as it is.
func (c *check) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(c.to, line)
			} else {
				c.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the tests' events: %w", err)
		}
	}
}

func (c *check) add(e event) {
	of := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if e.Test == "" {
			c.packageSays(e.Output)
			return
		}
		if c.output[of] == nil {
			c.output[of] = &strings.Builder{}
		}
		c.output[of].WriteString(e.Output)
	case "build-output":
		fmt.Fprint(c.to, e.Output)
	case "build-fail":
		c.failed = true
	case "fail":
		c.failed = true
		c.print(of)
	case "skip":
		if e.Test != "" { // else a package without tests
			c.skipped = append(c.skipped, skip{of, reason(c.output[of].String())})
		}
		delete(c.output, of)
	case "pass":
		if e.Test != "" {
			c.passed++
		}
		delete(c.output, of)
	}
}

// packageSays prints what a package says of itself: its result, and what came from outside its
// tests, such as the report of a race or of a panic.
func (c *check) packageSays(output string) {
	if output != "PASS\n" && output != "FAIL\n" {
		fmt.Fprint(c.to, output)
	}
}

func (c *check) print(of test) {
	if text := c.output[of]; text != nil {
		for line := range strings.Lines(text.String()) {
			if !strings.HasPrefix(line, "=== ") { // it runs or waits
				fmt.Fprint(c.to, line)
			}
		}
		delete(c.output, of)
	}
}

// reason is what a skipped test said.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		said = append(said, line)
	}
	return strings.Join(said, " ")
}

// close prints what was skipped and says whether all is well.
func (c *check) close() bool {
	// tests that never ended: a panic, or a time limit
	for _, of := range slices.SortedFunc(maps.Keys(c.output), test.compare) {
		c.print(of)
	}
	unknown := 0
	for _, s := range c.skipped {
		if instead := allowed(s); instead != "" {
			fmt.Fprintf(c.to, "skipped: %s %s: %s\n", s.pkg, s.name, instead)
			continue
		}
		unknown++
		fmt.Fprintf(c.to, "SKIPPED: %s %s ought to run here; it said: %s\n", s.pkg, s.name, s.reason)
	}
	switch {
	case unknown > 0:
		fmt.Fprintf(c.to,
			"tests that ought to run here and did not: %d. Install what they need, or name them in "+
				"scripts/skips/allowed.go with the place where they run\n", unknown)
	case c.passed == 0 && !c.failed:
		fmt.Fprintln(c.to, "no test ran")
	}
	return unknown == 0 && c.passed > 0 && !c.failed
}
