package puzzle2d

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/photo"
	"github.com/voxsaw/voxsaw/internal/proposal"
	"github.com/voxsaw/voxsaw/internal/safetext"
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
// gone on with, unless it was made with other options: the boxes that it has of the same
// photographs stay. Photographs that cannot be read have none; if more than one in twenty is bad,
// that is an error in the end. A context that ends leaves what is done in the file.
func Propose(ctx context.Context, set *photos.Set, path string, o ProposeOptions, done func(Proposed)) error {
	at := map[string]int{}
	for n, p := range set.Photos {
		if other, twice := at[stem(p.Path)]; twice {
			return fmt.Errorf("%s has %s and %s, and proposals name a photograph without folder and ending: rename one",
				set.Root, set.Photos[other].Path, p.Path)
		}
		at[stem(p.Path)] = n
	}
	blocks := make([]block, len(set.Photos))
	if !o.Force {
		if err := keepProposals(path, set.Root, at, o, blocks); err != nil {
			return err
		}
	}
	// what cannot be written is better known now than after hours
	if err := errors.Join(atomicfile.MakeFolder(filepath.Dir(path)), writeProposals(path, o, blocks)); err != nil {
		return err
	}
	work, results := make(chan int), make(chan int)
	outcome := make([]Proposed, len(set.Photos))
	var workers sync.WaitGroup
	count := o.Workers
	count = cmp.Or(count, runtime.GOMAXPROCS(0))
	for range count {
		workers.Go(func() {
			for n := range work {
				blocks[n], outcome[n] = propose(set, n, o, blocks[n])
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
	ready := slices.Clone(blocks) // what nobody is at work on
	for n := range results {
		ready[n] = blocks[n]
		done(outcome[n])
		switch {
		case outcome[n].Err != nil:
			bad++
		case !outcome[n].Kept:
			if fresh++; fresh%often == 0 && failed == nil {
				failed = writeProposals(path, o, ready)
			}
		}
	}
	if err := errors.Join(failed, ctx.Err()); err != nil {
		if fresh > 0 {
			err = errors.Join(err, writeProposals(path, o, blocks))
		}
		return err
	}
	if fresh > 0 {
		if err := writeProposals(path, o, blocks); err != nil {
			return err
		}
	}
	if 20*bad > len(set.Photos) {
		return fmt.Errorf("%d of %s could not be read", bad, numbers.Count(len(set.Photos), "photograph"))
	}
	return nil
}

// A block is a photograph's lines in the file, a member of gzip. Its comment says what they are
// computed from: the digest of the photograph's file, and the photograph's name.
type block struct {
	member []byte // nil: there is none yet
	digest string
}

// propose makes the block of a photograph, unless that which is there was made of the same file.
func propose(set *photos.Set, n int, o ProposeOptions, kept block) (block, Proposed) {
	found := set.Photos[n]
	outcome := Proposed{Path: found.Path}
	name := filepath.Join(set.Root, filepath.FromSlash(found.Path))
	data, err := photo.Load(name)
	if err != nil {
		outcome.Err = err
		return kept, outcome
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(data))
	if outcome.Kept = kept.member != nil && kept.digest == digest; outcome.Kept {
		return kept, outcome
	}
	boxes, err := search(data, o)
	if err != nil {
		outcome.Err = fmt.Errorf("%s: %w", name, err)
		return block{}, outcome
	}
	outcome.Boxes = len(boxes)
	made, err := proposalBlock(stem(found.Path), digest, boxes)
	outcome.Err = err
	return made, outcome
}

// search finds the boxes of a photograph, a file's content.
func search(data []byte, o ProposeOptions) ([]image.Rectangle, error) {
	p, err := photo.Decode(data)
	if err != nil {
		return nil, err
	}
	pixels := make([]byte, 3*p.Width*p.Height)
	photo.NewResizer(p.Width, p.Height, photo.Warp).Resize(pixels, p)
	boxes, err := proposal.Search(pixels, p.Width, p.Height, o.Seed)
	if err == nil && o.Most > 0 {
		boxes = boxes[:min(o.Most, len(boxes))]
	}
	return boxes, err
}

// proposalBlock is a photograph's block. Corners are as in Pascal VOC: see [Proposals].
func proposalBlock(name, digest string, boxes []image.Rectangle) (b block, err error) {
	if strings.ContainsAny(name, ",\"\n\r") {
		return b, fmt.Errorf("the photograph's name %q cannot stand in a CSV file: rename it", name)
	}
	var text bytes.Buffer
	for _, b := range boxes {
		fmt.Fprintf(&text, "%s,%d,%d,%d,%d\n", name, b.Min.X+1, b.Min.Y+1, b.Max.X, b.Max.Y)
	}
	b.digest = digest
	b.member, err = zipped(digest+" "+url.PathEscape(name), text.Bytes())
	return b, err
}

func zipped(comment string, text []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Comment = comment
	_, err := z.Write(text)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// comment is that of the file's first member: what its boxes depend on beside the photographs.
func (o ProposeOptions) comment() string {
	return fmt.Sprintf("voxsaw 2d propose --most %d --seed %d", o.Most, o.Seed)
}

func writeProposals(path string, o ProposeOptions, blocks []block) error {
	head, err := zipped(o.comment(), []byte(proposalColumns+"\n"))
	if err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		for _, b := range append([]block{{member: head}}, blocks...) {
			if _, err := w.Write(b.member); err != nil {
				return err
			}
		}
		return nil
	})
}

// keepProposals takes over the blocks of a file that is there. at are the photographs by their
// names.
func keepProposals(path, root string, at map[string]int, o ProposeOptions, blocks []block) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	z, err := gzip.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w: it is no file of proposals in gzip; choose another name, or --force", path, err)
	}
	for head := true; ; head = false {
		z.Multistream(false)
		var text bytes.Buffer
		if _, err := io.Copy(&text, io.LimitReader(z, mostBlock)); err != nil {
			return fmt.Errorf("%s: %w: --force begins again", path, err)
		}
		digest, escaped, found := strings.Cut(z.Comment, " ")
		name, err := url.PathUnescape(escaped)
		n, known := at[name]
		switch made := strings.HasPrefix(z.Comment, "voxsaw 2d propose "); {
		case head && !bytes.HasPrefix(text.Bytes(), []byte(proposalColumns+"\n")):
			return fmt.Errorf("%s is no file of proposals: choose another name, or --force", path)
		case head && !made:
			return fmt.Errorf("%s does not say with which --most and --seed it was made: choose another name, or "+
				"--force", path)
		case head && z.Comment != o.comment():
			return fmt.Errorf("%s was made by %s, and this is %s: take the same, choose another name, or --force", path,
				safetext.Text(z.Comment), o.comment())
		case head:
		case !found || err != nil || text.Len() >= mostBlock:
			return fmt.Errorf("%s has lines of another program: choose another name, or --force", path)
		case !known:
			return fmt.Errorf("%s has boxes of %q, which is no photograph of %s: choose another name, or --force", path,
				name, root)
		default:
			member, err := zipped(z.Comment, text.Bytes())
			if err != nil {
				return err
			}
			blocks[n] = block{member, digest}
		}
		switch err := z.Reset(in); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w: --force begins again", path, err)
		}
	}
}

// mostBlock is more bytes than the lines of a photograph have.
const mostBlock = 1 << 28
