// Package verify reads what the program has written, and compares it with what was written.
//
// Start at [Paths]. It finds prepared cases and photographs, checkpoints, runs and other folders of
// the program below folders. What is in each is its owner's business: volume/prepared,
// puzzle2d/photos, internal/checkpoint, internal/train. All that has a digest in its folder's list
// ([atomicfile.Seal]) is compared with it, byte by byte. Scans are not looked at: package dataset
// inspects those.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// The kinds of findings.
const (
	PreparedCases  = "prepared cases"
	PreparedPhotos = "prepared photographs"
	Checkpoint     = "checkpoint"
	Run            = "run"
	Files          = "files" // of a study, an evaluation, predictions
)

// A Finding is what was found out about one thing.
type Finding struct {
	Path     string   `json:"path"`
	Kind     string   `json:"kind"`
	Problems []string `json:"problems,omitempty"` // what is wrong; empty: it is what was written
	Note     string   `json:"note,omitempty"`     // what could not be compared
}

// Paths verifies what lies at the paths: a checkpoint, or a folder with prepared cases or
// photographs, runs, checkpoints, or folders of these. Each finding is passed to report at once. A
// path where there is nothing to verify is an error, and so is a folder that cannot be looked into.
// Of prepared cases, those in the part are read.
func Paths(ctx context.Context, paths []string, part dataset.Part, report func(Finding)) error {
	for _, path := range paths {
		found := 0
		visit := func(path string, entry fs.FileInfo, err error) error {
			if err != nil { // it may have been anything
				report(Finding{Path: path, Kind: Files, Problems: []string{cannot(err)}})
				found++
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f := one(ctx, path, entry.IsDir(), part)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if f == nil {
				return nil
			}
			report(*f)
			found++
			if f.Kind == PreparedCases || f.Kind == PreparedPhotos {
				return fs.SkipDir
			}
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() { // the walk visits what lies below it
			err = visit(path, info, nil)
		}
		if err == nil {
			err = folders.Walk(path, visit)
		}
		if err != nil && err != fs.SkipDir {
			return err
		}
		if found == 0 {
			return fmt.Errorf("%s: nothing that voxsaw has prepared, no run and no checkpoint is here", path)
		}
	}
	return nil
}

// one verifies a file or folder; nil where it is nothing of the program's.
func one(ctx context.Context, path string, folder bool, part dataset.Part) *Finding {
	switch {
	case !folder && strings.EqualFold(filepath.Ext(path), ".safetensors"):
		return verifyCheckpoint(path)
	case folder && isPrepared(path):
		return verifyPrepared(ctx, path, part).digests(
			owned{path, []string{"manifest.json", outdir.File}},
			owned{filepath.Join(path, "cases"), named(path, "cases", ".json")})
	case folder && photos.IsPrepared(path):
		problems, _ := photos.Verify(ctx, path) // who called looks at the end of ctx
		return (&Finding{Path: path, Kind: PreparedPhotos, Problems: problems}).digests(
			owned{path, []string{"index.json"}}, owned{filepath.Join(path, "shards"), named(path, "shards", ".json")})
	case folder && isFile(filepath.Join(path, "run.json")):
		f := &Finding{Path: path, Kind: Run,
			Problems: append(train.Verify(path), checkpoint.VerifyLists(train.ConfigOf(path))...)}
		names, err := train.Own(path)
		if err != nil {
			f.Problems = append(f.Problems, err.Error())
		}
		return f.digests(owned{path, names})
	case folder && (isFile(filepath.Join(path, atomicfile.SumsFile)) || isFile(filepath.Join(path, outdir.File))):
		f := &Finding{Path: path, Kind: Files}
		names, err := outdir.Names(path)
		if err != nil {
			f.Problems = append(f.Problems, err.Error())
		}
		// label maps, say: nothing tells whose the others are
		if !isFile(filepath.Join(path, outdir.File)) {
			names = named(path, "", "")
		}
		return f.digests(owned{path, append(names, outdir.File)})
	}
	return nil
}

// owned are files that the program writes into a folder.
type owned struct {
	dir   string
	names []string
}

// digests compares all files that have digests with them, and notes which of the program's files
// have none.
func (f *Finding) digests(of ...owned) *Finding {
	var without, gone []string
	written := false // just now
	for _, o := range of {
		written = written || atomicfile.Held(o.dir)
		listed, err := atomicfile.Compare(o.dir)
		for _, problem := range parts(err) {
			f.Problems = append(f.Problems, problem.Error())
		}
		known := map[string]bool{} // there may be a hundred thousand
		for _, name := range listed {
			known[name] = true
			if _, err := os.Lstat(filepath.Join(o.dir, name)); errors.Is(err, fs.ErrNotExist) {
				gone = append(gone, f.relative(o.dir, name))
			}
		}
		for _, name := range o.names {
			if isFile(filepath.Join(o.dir, name)) && !known[name] {
				without = append(without, f.relative(o.dir, name))
			}
		}
	}
	notes := slices.DeleteFunc([]string{f.Note}, func(note string) bool { return note == "" })
	if len(gone) > 0 {
		notes = append(notes, "is not there any more, somebody has deleted or not copied it: "+safetext.List(gone))
	}
	switch {
	case written:
		notes = append(notes, "is being written by another run just now: verify it again when that has ended")
	case len(without) > 0 && f.Note == "":
		notes = append(notes,
			"cannot be compared, for there are no digests of them (another program wrote "+
				"them, or the process that did was killed): "+safetext.List(without))
	}
	f.Note = strings.Join(notes, "; ")
	return f
}

// relative is a file's path below that of the finding.
func (f *Finding) relative(dir, name string) string {
	relative, err := filepath.Rel(f.Path, filepath.Join(dir, name))
	if err != nil {
		return name
	}
	return relative
}

// cannot says why something could not be looked at, without its path, which stands before.
func cannot(err error) string {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return "cannot be looked at: " + err.Error()
}

// parts are the errors that were joined.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// named lists the files of an extension in a folder below the path; of any where none is given.
func named(path, folder, extension string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(path, folder)) // who reads them says what is wrong
	for _, e := range entries {
		if (extension == "" || filepath.Ext(e.Name()) == extension) && e.Name()[0] != '.' {
			names = append(names, e.Name())
		}
	}
	return names
}

func verifyCheckpoint(path string) *Finding {
	f := &Finding{Path: path, Kind: Checkpoint}
	var d checkpoint.Description
	err := checkpoint.Verify(path)
	if err == nil {
		d, err = checkpoint.Read(path)
	}
	switch {
	case err != nil:
		f.Problems = []string{err.Error()}
	case d.Lost != "":
		f.Problems = []string{d.Lost + ": copy that file back"}
	}
	return f
}

// isPrepared says whether a folder holds prepared cases, or such that were never finished.
func isPrepared(path string) bool {
	some, err := filepath.Glob(filepath.Join(escape(path), "cases", "*.vox"))
	return err == nil && len(some) > 0 || isFile(filepath.Join(path, "manifest.json")) &&
		isFolder(filepath.Join(path, "cases"))
}

// escape makes a pattern of a path that stands for itself.
func escape(path string) string {
	if filepath.Separator == '\\' {
		return path // there a pattern cannot escape, and these characters are rare
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func verifyPrepared(ctx context.Context, path string, part dataset.Part) *Finding {
	f := &Finding{Path: path, Kind: PreparedCases}
	store, err := prepared.Open(path)
	if err != nil {
		f.Problems = []string{err.Error()}
		return f
	}
	defer store.Close()
	if err := store.VerifyRecords(); err != nil {
		f.Problems = append(f.Problems, err.Error())
	}
	n := -1
	for r := range store.Records() {
		if ctx.Err() != nil {
			return f
		}
		if n++; !part.Has(n) {
			continue
		}
		if err := store.VerifyCase(r.ID); err != nil {
			f.Problems = append(f.Problems, err.Error())
		}
	}
	return f
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
