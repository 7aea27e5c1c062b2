// Package verify reads what the program has written, and compares it with what was written.
//
// Start at [Paths]. It finds prepared cases and photographs, checkpoints and runs below folders.
// How each is checked is its owner's business: volume/prepared, puzzle2d/photos,
// internal/checkpoint, internal/train. Scans and label maps are not looked at: package dataset
// inspects those.
package verify

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/folders"
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
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
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
		return verifyPrepared(ctx, path, part)
	case folder && photos.IsPrepared(path):
		problems, _ := photos.Verify(ctx, path) // who called looks at the end of ctx
		return &Finding{Path: path, Kind: PreparedPhotos, Problems: problems}
	case folder && isFile(filepath.Join(path, "run.json")):
		return &Finding{Path: path, Kind: Run, Problems: append(train.Verify(path), checkpoint.VerifyLists(train.ConfigOf(path))...)}
	}
	return nil
}

func verifyCheckpoint(path string) *Finding {
	f := &Finding{Path: path, Kind: Checkpoint}
	var d checkpoint.Description
	known, err := checkpoint.Verify(path)
	if err == nil {
		d, err = checkpoint.Read(path)
	}
	switch {
	case err != nil:
		f.Problems = []string{err.Error()}
	case d.Lost != "":
		f.Problems = []string{d.Lost + ": copy that file back"}
	case !known:
		f.Note = "written without a digest, by an earlier version: its weights cannot be compared with anything"
	}
	return f
}

// isPrepared says whether a folder holds prepared cases, or such that were never finished.
func isPrepared(path string) bool {
	some, err := filepath.Glob(filepath.Join(escape(path), "cases", "*.vox"))
	return err == nil && len(some) > 0 || isFile(filepath.Join(path, "manifest.json")) && isFolder(filepath.Join(path, "cases"))
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
