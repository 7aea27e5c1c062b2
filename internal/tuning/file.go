package tuning

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
)

// A File is what a machine's measurements come to.
type File struct {
	// what the device says of itself: processor, kernels, threads; or GPU, driver, precision
	Processor string   `yaml:"processor"`
	Choices   []string `yaml:"choices"` // "convolution = algorithm"
}

// assigned stands between a convolution and its algorithm.
const assigned = " = "

// Load reads a file. What it was measured on must be the machine that it is to be used on.
func Load(path, processor string) (File, error) {
	var f File
	if err := config.Load(path, &f); err != nil {
		return f, err
	}
	if f.Processor != processor {
		return f, fmt.Errorf("%s was measured on %s, this is %s", path, f.Processor, processor)
	}
	_, err := Parse(f.Choices)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return f, err
}

// Parse turns choices as a file and a configuration have them into what a device wants.
func Parse(choices []string) (map[string]string, error) {
	if len(choices) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(choices))
	for _, c := range choices {
		key, algorithm, ok := strings.Cut(c, assigned)
		if !ok {
			return nil, fmt.Errorf("%q is no choice: want convolution%salgorithm", c, assigned)
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("two choices for %s", key)
		}
		m[key] = algorithm
	}
	return m, nil
}

// Set puts what was measured in place of older choices for the same convolutions. Only where it
// overrules the cost model is there a choice.
func (f *File) Set(measured []Choice) error {
	m, err := Parse(f.Choices)
	if err != nil {
		return err
	}
	if m == nil {
		m = map[string]string{}
	}
	for _, c := range measured {
		if m[c.Key()] = c.Algorithm; c.Algorithm == c.Model {
			delete(m, c.Key())
		}
	}
	f.Choices = nil
	for _, key := range slices.Sorted(maps.Keys(m)) {
		f.Choices = append(f.Choices, key+assigned+m[key])
	}
	return nil
}

// Add puts choices into a file, which is there already or not and which other processes may add to:
// f is then what it says.
func (f *File) Add(path string, measured ...Choice) error {
	return atomicfile.Rewrite(path, func() error {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			now, err := Load(path, f.Processor)
			if err != nil {
				return err
			}
			*f = now
		}
		if err := f.Set(measured); err != nil {
			return err
		}
		return f.Save(path)
	})
}

// Save writes the file, a choice a line.
func (f File) Save(path string) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		var b strings.Builder
		fmt.Fprintf(&b,
			"# Where voxsaw tune found another algorithm to be faster than the one that is taken without a "+
				"measurement. For the setting tuning.\nprocessor: %q\nchoices:", f.Processor)
		if len(f.Choices) == 0 {
			b.WriteString(" []")
		}
		for _, c := range f.Choices {
			fmt.Fprintf(&b, "\n  - %q", c)
		}
		_, err := io.WriteString(w, b.String()+"\n")
		return err
	})
}
