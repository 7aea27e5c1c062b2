package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// newPhotos is the group of commands for photographs.
func newPhotos() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "2d",
		Short: "Puzzles on photographs instead of scans",
		Long: `The same puzzles, solver and training on photographs: any folder of JPEG, PNG, GIF, BMP, WebP or TIFF files, with subfolders as
classes where there are any.`,
		Example: `  voxsaw 2d prepare PHOTOS --out photos
  voxsaw 2d pretrain --data photos --out runs/photos
  voxsaw 2d solve --data photos --checkpoint runs/photos --picture puzzle.png
  voxsaw 2d transfer --data photos --checkpoint runs/photos
  voxsaw 2d finetune --data voc --checkpoint runs/photos --task classify --out runs/voc`,
		Args: verbMistake,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPhotoPrepare(), newPhotoPretrain(), newPhotoSolve(), newPhotoTransfer(), newPhotoFinetune(),
		newPhotoCompare(), newPhotoConvert(), newPhotoPropose())
	return cmd
}

// forPhotos puts "2d" before pretrain and solve where --data names prepared photographs, so that
// one verb serves scans and photographs. A line that begins otherwise stays as it is.
func forPhotos(args []string) []string {
	if len(args) == 0 || args[0] != "pretrain" && args[0] != "solve" {
		return args
	}
	data := ""
	for k, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--data="); ok {
			data = value
		} else if arg == "--data" && k+1 < len(args) {
			data = args[k+1]
		}
	}
	if data == "" {
		return args
	}
	store, err := photos.Open(data)
	if err != nil {
		return args // of scans, or of nothing: the verb says what is wrong
	}
	store.Close()
	return append([]string{"2d"}, args...)
}

// withoutGroup is an annotation of the root: the verb on photographs was called without "2d".
const withoutGroup = "without 2d"

// asCalled is a command's path or usage, without "2d" where the command line has none.
func asCalled(cmd *cobra.Command, path string) string {
	if cmd.Root().Annotations[withoutGroup] == "" {
		return path
	}
	return strings.Replace(path, " 2d ", " ", 1)
}

// describePhotos says in a line what a folder of photographs is.
func describePhotos(s *photos.Set) string {
	sides := map[string]int{}
	unlabelled, objects := 0, 0
	for _, p := range s.Photos {
		sides[p.Split]++
		objects += len(p.Objects)
		if p.Class == photos.Unlabelled {
			unlabelled++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", safetext.Text(s.Root), numbers.Count(len(s.Photos), "photograph"))
	switch {
	case objects > 0:
		fmt.Fprintf(&b, " with %d objects of %s", objects, classCount(s))
	case len(s.Classes) == 0:
		b.WriteString(" without classes")
	default:
		fmt.Fprintf(&b, " in %s", classCount(s))
	}
	if objects == 0 && len(s.Classes) > 0 && unlabelled > 0 {
		fmt.Fprintf(&b, " (%d of them in none)", unlabelled)
	}
	fmt.Fprintf(&b, ", layout %s", s.Layout)
	if sides[""] < len(s.Photos) {
		fmt.Fprintf(&b, ": %s", sideCounts(sides))
	}
	return b.String()
}

func classCount(s *photos.Set) string {
	switch len(s.Classes) {
	case 0:
		return "no classes"
	case 1:
		return "one class"
	}
	return fmt.Sprintf("%d classes", len(s.Classes))
}

func sideCounts(sides map[string]int) string {
	var parts []string
	for _, side := range []string{photos.Train, photos.Val, photos.Test} {
		if sides[side] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", side, sides[side]))
		}
	}
	return strings.Join(parts, ", ")
}
