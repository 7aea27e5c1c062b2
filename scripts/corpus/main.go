// Command corpus reads the files of public repositories with Voxsaw's readers, and compares what
// they say with what other programs said.
//
//	go run ./scripts/corpus --clones FOLDER
//	go run ./scripts/corpus --clones FOLDER --only nibabel
//
// FOLDER holds git clones, FOLDER/owner/name each. list.yaml names the repositories, their commits,
// which files are tried, and which of them must be refused with which words. expected.jsonl holds
// the readings of nibabel, pydicom and dcm2niix; expected.py makes it. Files are taken from the
// commit, so that the clone's work tree does not count, and a bare clone will do.
//
// With --volumes, it makes a folder of the volumes of another list, scripts/publicct/list.yaml,
// from clones, and compares each with its digest; without --clones, it looks at the folder alone:
//
//	go run ./scripts/corpus --volumes scripts/publicct/list.yaml --out SCANS --clones FOLDER
//
// A line for each file or series says whether it was right, refused as it should be, or wrong; a
// table follows. The exit code is 1 if anything was wrong or missing. Start at [run] and [gather].
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	clones := flag.String("clones", "", "folder of git clones, owner/name each")
	list := flag.String("list", "scripts/corpus", "folder that holds list.yaml and expected.jsonl")
	only := flag.String("only", "", "only repositories and paths that contain this")
	volumes := flag.String("volumes", "", "list of volumes that --out is to hold, instead of --list")
	folder := flag.String("out", "", "folder of the volumes of --volumes")
	flag.Parse()
	if *clones == "" && *volumes == "" || (*volumes == "") != (*folder == "") || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	var bad int
	var err error
	if *volumes != "" {
		bad, err = gather(os.Stdout, *clones, *volumes, *folder, *only)
	} else {
		bad, err = run(os.Stdout, *clones, *list, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
	}
	if err != nil || bad > 0 {
		os.Exit(1)
	}
}

// run judges the files of all repositories, and returns how many were wrong or missing.
func run(out io.Writer, clones, list, only string) (bad int, err error) {
	repositories, err := readList(list)
	if err != nil {
		return 0, err
	}
	var counts []count
	for _, r := range repositories {
		expected := slices.DeleteFunc(slices.Clone(r.expected),
			func(e expectation) bool { return !strings.Contains(r.Repository+"/"+e.Path, only) })
		if len(expected) == 0 {
			continue
		}
		c, err := openClone(filepath.Join(clones, filepath.FromSlash(r.Repository)), r.Commit)
		if err != nil {
			return 0, err
		}
		line := count{name: r.Repository}
		for _, e := range expected {
			verdict, why := try(c, e, r.words(e.Path))
			fmt.Fprintf(out, "%-8s %s %s%s\n", verdict, r.Repository, e.Path, why)
			line.add(verdict, max(1, e.Files))
		}
		counts = append(counts, line)
		if err := c.close(); err != nil {
			return 0, err
		}
	}
	if len(counts) == 0 {
		return 0, fmt.Errorf("no repository and no path contains %q", only)
	}
	return table(out, counts), nil
}

// try reads one file, or one folder, and judges what was read.
func try(c *clone, e expectation, words []string) (verdict, why string) {
	folder, err := os.MkdirTemp("", "corpus-")
	if err != nil {
		return missing, ": " + err.Error()
	}
	defer os.RemoveAll(folder)
	files, err := c.checkout(e.Path, folder)
	switch {
	case err != nil:
		return missing, ": " + err.Error()
	case files == 0:
		return missing, ": the clone does not hold it"
	case e.Files > 0 && files != e.Files:
		return missing, fmt.Sprintf(": the clone holds %d files, the list %d", files, e.Files)
	}
	return judge(read(filepath.Join(folder, filepath.FromSlash(e.Path))), e, words)
}

// count is a line of the table.
type count struct {
	name                                         string
	tried, files, right, refused, wrong, missing int
}

func (c *count) add(verdict string, files int) {
	c.tried++
	c.files += files
	switch verdict {
	case right:
		c.right++
	case refused:
		c.refused++
	case wrong:
		c.wrong++
	case missing:
		c.missing++
	}
}

// table prints the counts as docs/formats.md shows them, and returns how many were bad.
func table(out io.Writer, counts []count) (bad int) {
	fmt.Fprintln(out, "\n| repository | files | tried | right | refused by the right name | wrong |")
	fmt.Fprintln(out, "|---|---:|---:|---:|---:|---:|")
	all := count{name: "**all**"}
	for _, c := range counts {
		all.tried, all.files, all.right = all.tried+c.tried, all.files+c.files, all.right+c.right
		all.refused, all.wrong, all.missing = all.refused+c.refused, all.wrong+c.wrong, all.missing+c.missing
	}
	for _, c := range append(counts, all) {
		fmt.Fprintf(out, "| %s | %d | %d | %d | %d | %d |\n", c.name, c.files, c.tried, c.right, c.refused, c.wrong)
	}
	if all.missing > 0 {
		fmt.Fprintf(out, "\n%d are not in the clones.\n", all.missing)
	}
	return all.wrong + all.missing
}
