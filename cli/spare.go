package cli

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file keeps commands from writing over a file that a user has named and that is of another
// kind than what they write. Files of fixed names in a folder are package outdir's.

// A spared is a kind of file that a command writes: how to tell it, and what to say of another
// file.
type spared struct {
	is       func(content []byte) bool
	no, hint string
}

var (
	aPage    = spared{report.IsPage, "is no page of voxsaw", "choose another name: --out FILE.html"}
	aPicture = spared{isPicture, "holds no picture", "choose another name: --picture FILE.png"}
)

// theText is a file that holds nothing but a text: one that a person has changed is spared.
func theText(text []byte) spared {
	return spared{func(content []byte) bool { return bytes.Equal(content, text) },
		"is there already and says something else", "move it away, or choose another folder"}
}

func isPicture(content []byte) bool {
	_, _, err := image.DecodeConfig(bytes.NewReader(content))
	return err == nil
}

// spare refuses to write over a file of another kind. The file need not be there.
func spare(path string, kind spared) error {
	content, err := smallfile.Read(path, smallfile.Log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var large *smallfile.TooLargeError
	if errors.As(err, &large) || err == nil && !kind.is(content) {
		err = withHint(fmt.Errorf("%s %s, and would be written over", path, kind.no), "%s", kind.hint)
	}
	return err
}

// checkOut says, before a verb begins, why what it makes could not be written where --out says: a
// mistake that would show once all is computed.
func checkOut(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("out")
	if flag == nil || flag.Value.String() == "" {
		return nil
	}
	path := flag.Value.String()
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && forFolder(flag) {
		return withHint(usagef("%s is a file, and --out names a folder", path), "choose another --out")
	}
	err = atomicfile.CanMake(path)
	if errors.Is(err, atomicfile.ErrFile) {
		err = &usageError{err}
	}
	return withHint(err, "choose another --out")
}

// forFolder says whether a flag names a folder, and not a file or either of them.
func forFolder(flag *pflag.Flag) bool {
	words := strings.Fields(flag.Usage)
	return slices.Contains(words[:min(2, len(words))], "folder") && !strings.Contains(flag.Usage, "one file")
}
