// Package standin knows files that stand where another should be: pointers of Git LFS and of
// git-annex that were not fetched, and web pages and answers of servers that a download left under
// the file's name. Start at [What], which whoever cannot read a file asks; [Instead] knows JSON,
// too.
package standin

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Enough is how many bytes of a file's beginning [What] looks at.
const Enough = 1 << 10

var (
	lfs   = []byte("version https://git-lfs.github.com/spec/")
	annex = regexp.MustCompile(`^/annex/objects/\S+\s*$`)
	// comments may come first, and white space
	page = regexp.MustCompile(
		`(?is)^(<\?xml[^>]*>|<!--.*?-->|\s)*<(!doctype\s+html|html|head|body|script|meta|title)[\s>]`,
	)
	title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)(</title|$)`)
	xml   = regexp.MustCompile(`(?s)^\s*<\?xml\s`)
	// an object or a list of JSON, such as a server's error message
	object = regexp.MustCompile(`^\s*(\{\s*("[^"]*"\s*:|\})|\[\s*[{"\]])`)
)

// What tells a file by its beginning that is not what its name says: what it is instead, and what
// to do about it, in words that follow the file's name. It is "" for all other files.
func What(start []byte) string {
	start = bytes.TrimPrefix(start[:min(len(start), Enough)], []byte("\xef\xbb\xbf"))
	switch {
	case bytes.HasPrefix(start, lfs):
		return "is a pointer of Git LFS, not the file itself: git lfs pull fetches it"
	case annex.Match(start):
		return "is a pointer of git-annex, not the file itself: git annex get fetches it"
	case page.Match(start):
		called := ""
		if m := title.FindSubmatch(start); m != nil {
			if text := oneLine(m[1]); text != "" {
				called = ` ("` + text + `")`
			}
		}
		return "is a web page" + called + ", not the file itself: download it again, where that asks for it signed in"
	case xml.Match(start):
		return "is XML, such as a server's error message, not the file itself: download it again"
	}
	return ""
}

// Instead is [What] of a file whose own format is no JSON: it knows JSON, too.
func Instead(start []byte) string {
	if what := What(start); what != "" {
		return what
	}
	if object.Match(bytes.TrimPrefix(start[:min(len(start), Enough)], []byte("\xef\xbb\xbf"))) {
		return "is JSON, such as a server's error message, not the file itself: download it again"
	}
	return ""
}

// Link says of the link at a path, which leads nowhere, what it is.
func Link(path string) string {
	target, err := os.Readlink(path)
	if err == nil && strings.Contains(filepath.ToSlash(target), ".git/annex/objects/") {
		return "a link of git-annex to a file that is not here: git annex get fetches it"
	}
	return "a link that leads nowhere"
}

// oneLine makes a title harmless, and short.
func oneLine(title []byte) string {
	const most = 60 // characters
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r == '"' || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(title))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most-3]) + "..."
	}
	return text
}
