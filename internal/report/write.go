package report

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: a report's files. A study that grows writes its report again and again, and pictures
// are numbered: what an earlier one has left, and this one has not, is removed.

// contentsFile lists the files that a report has in its folder, a name a line. No table and no
// picture has its extension.
const contentsFile = "contents.txt"

// Write writes name.html, name.md with its pictures in name_files, and a CSV file there for every
// table. Each file is complete or absent. Files that an earlier report of that name has left there
// are removed; those of others stay.
func (r Report) Write(folder, name string) error {
	if err := r.write(folder, name); err != nil {
		return fmt.Errorf("writing report: %w", err)
	}
	return nil
}

func (r Report) write(folder, name string) error {
	beside := name + "_files"
	files := filepath.Join(folder, beside)
	if err := atomicfile.MakeFolder(files); err != nil {
		return err
	}
	var html bytes.Buffer
	if err := r.HTML(&html); err != nil {
		return fmt.Errorf("%s.html: %w", name, err)
	}
	page, parts, err := r.Markdown(beside)
	if err != nil {
		return fmt.Errorf("%s.md: %w", name, err)
	}
	tables := r.tables()
	for _, path := range slices.Sorted(maps.Keys(tables)) {
		var b bytes.Buffer
		if err := tables[path].CSV(&b); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		parts[path] = b.Bytes()
	}
	// processes that share a study may end at once, and each writes its report
	release, err := atomicfile.Await(files)
	if err != nil {
		return err
	}
	defer release()
	earlier, err := contents(files)
	if err != nil {
		return err
	}
	// all that may be there from now on, wherever this is cut off
	if err := writeContents(files, slices.Concat(earlier, slices.Collect(maps.Keys(parts)))); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(parts)) {
		if err := atomicfile.WriteBytes(filepath.Join(files, path), parts[path]); err != nil {
			return err
		}
	}
	for n, data := range [][]byte{html.Bytes(), page} {
		if err := atomicfile.WriteBytes(filepath.Join(folder, name+[]string{".html", ".md"}[n]), data); err != nil {
			return err
		}
	}
	for _, path := range earlier {
		if _, kept := parts[path]; kept {
			continue
		}
		if err := atomicfile.Remove(filepath.Join(files, path)); err != nil {
			return err
		}
	}
	if err := writeContents(files, slices.Collect(maps.Keys(parts))); err != nil {
		return err
	}
	if err := atomicfile.Seal(files, append(slices.Collect(maps.Keys(parts)), contentsFile)...); err != nil {
		return err
	}
	return atomicfile.Seal(folder, name+".html", name+".md")
}

// contents are the names of the files that an earlier report has in its folder, as far as they are
// there.
func contents(files string) ([]string, error) {
	text, err := smallfile.Read(filepath.Join(files, contentsFile), smallfile.List)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.Lines(string(text)) {
		name = strings.TrimSuffix(name, "\n")
		// nothing else was ever written there, whatever the list says
		if filepath.Base(name) != name || !slices.Contains([]string{".csv", ".png", ".svg"}, filepath.Ext(name)) {
			continue
		}
		if info, err := os.Lstat(filepath.Join(files, name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
}

func writeContents(files string, names []string) error {
	slices.Sort(names)
	var text strings.Builder
	for _, name := range slices.Compact(names) {
		text.WriteString(name + "\n")
	}
	return atomicfile.WriteBytes(filepath.Join(files, contentsFile), []byte(text.String()))
}
