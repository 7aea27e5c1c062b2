package puzzle2d

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/photo"
	"github.com/voxsaw/voxsaw/internal/proposal"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// ProposeOptions say how boxes are proposed.
type ProposeOptions struct {
	// boxes of a photograph, its most promising ones; 0: all
	Most int `yaml:"most" range:"[0,)"`
	// decides the order of the boxes of a photograph
	Seed uint64 `yaml:"seed"`
	// photographs looked at at once; 0: one a core
	Workers int `yaml:"workers" range:"[0,)" most:"4096"`
	// begin again where the file is there already
	Force bool `yaml:"force"`
}

// DefaultProposeOptions are Fast R-CNN's 2000 boxes a photograph.
func DefaultProposeOptions() ProposeOptions { return ProposeOptions{Most: 2000} }

// A Proposed says what became of a photograph.
type Proposed struct {
	Path  string
	Boxes int
	Kept  bool  // its boxes were in the file already
	Err   error // why it could not be read
}

// Propose writes a file of proposals for the photographs of a data set, in gzip: those of selective
// search (Uijlings et al. 2013). done is told of each, from one goroutine. A file that is there is
// gone on with: the boxes that it has stay. Photographs that cannot be read have none; if more than
// one in twenty is bad, that is an error in the end. A context that ends leaves what is done in the
// file.
func Propose(ctx context.Context, set *photos.Set, path string, o ProposeOptions, done func(Proposed)) error {
	blocks := make([][]byte, len(set.Photos)) // of the photographs, each a member of the gzip file
	if !o.Force {
		if err := keepProposals(path, set, blocks); err != nil {
			return err
		}
	}
	// what cannot be written is better known now than after hours
	if err := errors.Join(atomicfile.MakeFolder(filepath.Dir(path)), writeProposals(path, blocks)); err != nil {
		return err
	}
	work, results := make(chan int), make(chan int)
	outcome := make([]Proposed, len(set.Photos))
	var workers sync.WaitGroup
	count := o.Workers
	if count == 0 {
		count = runtime.GOMAXPROCS(0)
	}
	for range count {
		workers.Go(func() {
			for n := range work {
				outcome[n].Path = set.Photos[n].Path
				if outcome[n].Kept = blocks[n] != nil; !outcome[n].Kept {
					blocks[n], outcome[n].Boxes, outcome[n].Err = propose(set, n, o)
				}
				results <- n
			}
		})
	}
	go func() {
		defer close(results)
		defer workers.Wait()
		defer close(work)
		for n := range set.Photos {
			select {
			case work <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	const often = 500 // photographs between two writings
	bad, fresh := 0, 0
	var failed error
	ready := make([][]byte, len(blocks)) // what nobody is at work on
	for n := range results {
		ready[n] = blocks[n]
		done(outcome[n])
		switch {
		case outcome[n].Err != nil:
			bad++
		case !outcome[n].Kept:
			if fresh++; fresh%often == 0 && failed == nil {
				failed = writeProposals(path, ready)
			}
		}
	}
	if err := errors.Join(failed, ctx.Err()); err != nil {
		if fresh > 0 {
			err = errors.Join(err, writeProposals(path, blocks))
		}
		return err
	}
	if fresh > 0 {
		if err := writeProposals(path, blocks); err != nil {
			return err
		}
	}
	if 20*bad > len(set.Photos) {
		return fmt.Errorf("%d of %s could not be read", bad, numbers.Count(len(set.Photos), "photograph"))
	}
	return nil
}

// propose makes the lines of a photograph.
func propose(set *photos.Set, n int, o ProposeOptions) (block []byte, count int, err error) {
	found := set.Photos[n]
	p, err := photo.Read(filepath.Join(set.Root, filepath.FromSlash(found.Path)))
	if err != nil {
		return nil, 0, err
	}
	pixels := make([]byte, 3*p.Width*p.Height)
	photo.NewResizer(p.Width, p.Height, photo.Warp).Resize(pixels, p)
	boxes, err := proposal.Search(pixels, p.Width, p.Height, o.Seed)
	if err != nil {
		return nil, 0, err
	}
	if o.Most > 0 {
		boxes = boxes[:min(o.Most, len(boxes))]
	}
	block, err = proposalBlock(stem(found.Path), boxes)
	return block, len(boxes), err
}

// proposalBlock is a photograph's lines in gzip. Corners are as in Pascal VOC: see [Proposals].
func proposalBlock(name string, boxes []image.Rectangle) ([]byte, error) {
	if strings.ContainsAny(name, ",\"\n\r") {
		return nil, fmt.Errorf("the photograph's name %q cannot stand in a CSV file: rename it", name)
	}
	var text bytes.Buffer
	for _, b := range boxes {
		fmt.Fprintf(&text, "%s,%d,%d,%d,%d\n", name, b.Min.X+1, b.Min.Y+1, b.Max.X, b.Max.Y)
	}
	return zipped(text.Bytes())
}

func zipped(text []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(text)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

func writeProposals(path string, blocks [][]byte) error {
	head, err := zipped([]byte(proposalColumns + "\n"))
	if err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		for _, block := range append([][]byte{head}, blocks...) {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return nil
	})
}

// keepProposals takes over the lines of a file that is there.
func keepProposals(path string, set *photos.Set, blocks [][]byte) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w: it is no file of proposals in gzip; choose another name, or --force", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, 8<<30))
	if err != nil {
		return fmt.Errorf("%s: %w: --force begins again", path, err)
	}
	rest, ok := bytes.CutPrefix(text, []byte(proposalColumns+"\n"))
	if !ok {
		return fmt.Errorf("%s is no file of proposals: choose another name, or --force", path)
	}
	at := map[string]int{}
	for n, p := range set.Photos {
		at[stem(p.Path)] = n
	}
	for len(rest) > 0 {
		name, _, _ := bytes.Cut(rest, []byte(","))
		n, known := at[string(name)]
		if !known {
			return fmt.Errorf("%s has boxes of %q, which is no photograph of %s: choose another name, or --force", path,
				string(name), set.Root)
		}
		end := 0
		for bytes.HasPrefix(rest[end:], []byte(string(name)+",")) {
			line := bytes.IndexByte(rest[end:], '\n')
			if line < 0 {
				return fmt.Errorf("%s ends within a line: --force begins again", path)
			}
			end += line + 1
		}
		if blocks[n], err = zipped(rest[:end]); err != nil {
			return err
		}
		rest = rest[end:]
	}
	return nil
}
