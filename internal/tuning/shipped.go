package tuning

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/config"
)

// shipped are files as voxsaw tune writes them, for GPUs of a name: see shipped/README.md.
//
//go:embed shipped
var shipped embed.FS

// Shipped is what comes with the program for a machine, as a device names it ([device.Chooser]):
// what somebody measured on a GPU of the same name, at the same precision and beside the same
// kernels, with whatever driver.
// It is false where there is nothing: then the device decides by the shapes.
func Shipped(machine string) (File, bool, error) { return shippedIn(shipped, machine) }

func shippedIn(files fs.FS, machine string) (File, bool, error) {
	paths, err := fs.Glob(files, "shipped/*.yaml")
	if err != nil {
		return File{}, false, err
	}
	for _, path := range paths {
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return File{}, false, err
		}
		var f File
		if err := config.Parse(path, data, &f); err != nil {
			return File{}, false, err
		}
		if withoutDriver(f.Processor) != withoutDriver(machine) {
			continue
		}
		if _, err := Parse(f.Choices); err != nil {
			return File{}, false, fmt.Errorf("%s: %w", path, err)
		}
		return f, true, nil
	}
	return File{}, false, nil
}

// withoutDriver is a machine's name without the version of its driver.
func withoutDriver(machine string) string {
	parts := slices.DeleteFunc(strings.Split(machine, ", "),
		func(s string) bool { return strings.HasPrefix(s, "driver ") })
	return strings.Join(parts, ", ")
}
