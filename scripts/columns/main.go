// Command columns lists lines of the repository's Go files that are too long: those that hold a
// comment from 101 columns on, code from 121 on, with tab stops every 4. It fails if there are any.
//
//	go run ./scripts/columns
//
// Generated files, compiler directives, tables (comments that are indented), text in backquotes
// (tags of structs, pages, patterns) and comments that are one long word (an address) are left out.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

const (
	commentLimit = 100
	codeLimit    = 120
)

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	directive = regexp.MustCompile(`^//(go:|nolint|export |line )|^//\s*(lint:|\+build)`)
	table     = regexp.MustCompile(`^//(\t|  )`)
)

func main() {
	out, err := exec.Command("git", "ls-files", "-z", "*.go").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "columns: listing files:", err)
		os.Exit(1)
	}
	count := 0
	for _, path := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		source, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // removed, and git has not been told yet
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "columns:", err)
			os.Exit(1)
		}
		for _, line := range long(source) {
			fmt.Printf("%s:%d\n", path, line)
			count++
		}
	}
	if count > 0 {
		fmt.Fprintf(os.Stderr, "columns: %d lines are too long: comments may have %d columns, code %d\n",
			count, commentLimit, codeLimit)
		os.Exit(1)
	}
}

// long lists the lines of a Go file, 1 for the first, that are too long: those with a comment of
// several words, and those of code without text in backquotes.
func long(source []byte) (found []int) {
	if generated.Match(source) {
		return nil
	}
	lines := strings.Split(string(source), "\n")
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	code := map[int]bool{} // lines whose code may be measured
	for n := range lines {
		code[n+1] = true
	}
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind != token.COMMENT && (kind != token.STRING || text[0] != '`') {
			continue
		}
		measured := kind == token.COMMENT && !directive.MatchString(text) && !table.MatchString(text)
		for n, part := range strings.Split(text, "\n") {
			line := file.Line(at) + n
			code[line] = false
			if measured && columns(lines[line-1]) > commentLimit && len(strings.Fields(part)) > 2 {
				found = append(found, line)
			}
		}
	}
	for n, line := range lines {
		if code[n+1] && columns(line) > codeLimit {
			found = append(found, n+1)
		}
	}
	slices.Sort(found)
	return found
}

// columns is the width of a line, with tab stops every 4 columns.
func columns(line string) (width int) {
	for _, r := range line {
		if width++; r == '\t' {
			width = (width + 3) / 4 * 4
		}
	}
	return width
}
