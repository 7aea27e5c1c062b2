// Command readme writes the README.md of a release's archive: the repository's, with links that
// also work where the repository is not.
//
//	go run ./scripts/readme v1.2.3 < README.md
//	go run ./scripts/readme COMMIT < README.md
//
// A link to a file of the repository becomes one to that file on GitHub, as it is at the tag or the
// commit; a picture becomes its bytes there. Start at [absolute].
package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// repository is where the files that README.md links to can be had.
const repository = "https://github.com/voxsaw/voxsaw"

func main() {
	if len(os.Args) != 2 || os.Args[1] == "" {
		fmt.Fprintln(os.Stderr, "usage: readme TAG|COMMIT < README.md")
		os.Exit(2)
	}
	if err := run(os.Stdin, os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

func run(r io.Reader, w io.Writer, revision string) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, absolute(string(text), revision))
	return err
}

var (
	link   = regexp.MustCompile(`(!?)\[([^\]]*)\]\(([^)\s]+)\)`)
	remote = regexp.MustCompile(`^([a-z]+:|#|/)`)
)

// absolute makes each relative link of a page in Markdown one to the file at a revision. Links with
// a scheme, links within the page and blocks of code stay as they are.
func absolute(page, revision string) string {
	lines := strings.SplitAfter(page, "\n")
	code := false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			continue
		}
		lines[i] = link.ReplaceAllStringFunc(line, func(found string) string {
			parts := link.FindStringSubmatch(found)
			if remote.MatchString(parts[3]) {
				return found
			}
			kind := "blob"
			if parts[1] == "!" {
				kind = "raw"
			}
			path := strings.TrimPrefix(parts[3], "./")
			return fmt.Sprintf("%s[%s](%s/%s/%s/%s)", parts[1], parts[2], repository, kind, revision, path)
		})
	}
	return strings.Join(lines, "")
}
