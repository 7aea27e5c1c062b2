// Command comments lists lines of the repository's Go files that hold a comment and are longer than
// 100 columns, with tab stops every 4. It fails if there are more than it may find.
//
//	go run ./scripts/comments
//	go run ./scripts/comments --most 40
//
// Generated files, compiler directives, tables (comments that are indented) and lines that are one
// long word (an address) are left out.
package main

import (
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

const limit = 100

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	directive = regexp.MustCompile(`^//(go:|nolint|export |line )|^//\s*(lint:|\+build)`)
	table     = regexp.MustCompile(`^//(\t|  )`)
)

func main() {
	most := flag.Int("most", 0, "lines that may be too long")
	flag.Parse()
	out, err := exec.Command("git", "ls-files", "-z", "*.go").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "comments: listing files:", err)
		os.Exit(1)
	}
	count := 0
	for _, path := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		source, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // removed, and git has not been told yet
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "comments:", err)
			os.Exit(1)
		}
		for _, line := range long(source) {
			fmt.Printf("%s:%d\n", path, line)
			count++
		}
	}
	if count > *most {
		fmt.Fprintf(os.Stderr, "comments: %d lines with a comment are longer than %d columns, at most %d may be\n",
			count, limit, *most)
		os.Exit(1)
	}
}

// long lists the lines of a Go file, 1 for the first, that are too long and hold a comment of
// several words.
func long(source []byte) (found []int) {
	if generated.Match(source) {
		return nil
	}
	lines := strings.Split(string(source), "\n")
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind != token.COMMENT || directive.MatchString(text) || table.MatchString(text) {
			continue
		}
		for n, part := range strings.Split(text, "\n") {
			line := file.Line(at) + n
			if columns(lines[line-1]) > limit && len(strings.Fields(part)) > 2 {
				found = append(found, line)
			}
		}
	}
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
