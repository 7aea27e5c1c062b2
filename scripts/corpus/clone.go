package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// clone is a commit of a git clone, bare or not.
type clone struct {
	folder, commit string
	paths          []string // of all files of the commit
	batch          *exec.Cmd
	ask            io.WriteCloser
	answers        *bufio.Reader
}

// openClone looks for a commit in a clone. The caller closes it.
func openClone(folder, commit string) (*clone, error) {
	c := &clone{folder: folder, commit: commit}
	var names, problem bytes.Buffer
	list := exec.Command("git", "-C", folder, "ls-tree", "-r", "-z", "--name-only", commit)
	list.Stdout, list.Stderr = &names, &problem
	if err := list.Run(); err != nil {
		return nil, fmt.Errorf("%s: git ls-tree %s: %w: %s", folder, commit, err, strings.TrimSpace(problem.String()))
	}
	c.paths = strings.FieldsFunc(names.String(), func(r rune) bool { return r == 0 })
	c.batch = exec.Command("git", "-C", folder, "cat-file", "--batch")
	var err error
	if c.ask, err = c.batch.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.batch.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.answers = bufio.NewReader(out)
	return c, c.batch.Start()
}

func (c *clone) close() error {
	c.ask.Close()
	return c.batch.Wait()
}

// checkout writes a file of the commit below a folder, under its own path, with the image of a
// .hdr/.img pair beside it; or all files of a folder, whose path ends in a slash. Files that the
// clone lists and does not hold are left out. It returns how many were written.
func (c *clone) checkout(name, folder string) (files int, err error) {
	for _, p := range c.paths {
		if p != name && !(strings.HasSuffix(name, "/") && strings.HasPrefix(p, name)) && !isImageOf(p, name) {
			continue
		}
		content, err := c.content(p)
		if err != nil {
			return files, err
		}
		if content == nil {
			continue
		}
		target := filepath.Join(folder, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return files, err
		}
		if err := os.WriteFile(target, content, 0o644); err != nil {
			return files, err
		}
		files++
	}
	return files, nil
}

var header = regexp.MustCompile(`(?i)\.hdr(\.gz)?$`)

// isImageOf reports whether a path is the image to a header of a pair.
func isImageOf(p, headerPath string) bool {
	stem := header.ReplaceAllString(headerPath, "")
	return stem != headerPath && path.Dir(p) == path.Dir(headerPath) &&
		regexp.MustCompile(`(?i)^`+regexp.QuoteMeta(stem)+`\.img(\.gz)?$`).MatchString(p)
}

// content returns a file's bytes, nil if the clone does not hold it.
func (c *clone) content(p string) ([]byte, error) {
	if _, err := fmt.Fprintf(c.ask, "%s:%s\n", c.commit, p); err != nil {
		return nil, err
	}
	answer, err := c.answers.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: git cat-file: %w", c.folder, err)
	}
	fields := strings.Fields(answer)
	if len(fields) != 3 || fields[1] != "blob" {
		return nil, nil
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil {
		return nil, fmt.Errorf("%s: git cat-file: %q", c.folder, answer)
	}
	content := make([]byte, size+1) // and a line end
	if _, err := io.ReadFull(c.answers, content); err != nil {
		return nil, fmt.Errorf("%s: git cat-file: %w", c.folder, err)
	}
	return content[:size], nil
}
