package puzzle2d

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// Proposals are boxes that may hold an object, of each prepared photograph: what selective search
// or another program found. A file of them is CSV, or that in gzip:
//
//	photo,xmin,ymin,xmax,ymax
//	000012,48,64,210,197
//
// photo is the name of the photograph's file without its ending. Corners are pixels of the original
// photograph, as in Pascal VOC's annotations: the first pixel is 1, and both corners belong to the
// box. The rows of a photograph may stand anywhere; the first ones are the best, where only some
// are wanted.
type Proposals struct {
	boxes  [][][4]float32 // of each photograph of the store
	path   string
	digest string
}

// proposalColumns is the first line of a file.
const proposalColumns = "photo,xmin,ymin,xmax,ymax"

// ReadProposals reads a file of proposals for the photographs of a store, at most so many of each;
// 0: all. Every line must name a photograph that the data set has, and a box on it.
func ReadProposals(path string, store *photos.Store, most int) (*Proposals, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &Proposals{path: path, boxes: make([][][4]float32, store.Len())}
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(f, sum), 1<<20)
	var lines io.Reader = in
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if lines, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := p.read(lines, store, most); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what is behind a gzip's end
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p.digest = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

func (p *Proposals) read(in io.Reader, store *photos.Store, most int) error {
	numbers := make(map[string]int, store.Len())
	for n := range store.Len() {
		numbers[stem(store.Name(n))] = n
	}
	for _, name := range store.LeftOut() {
		if _, there := numbers[stem(name)]; !there {
			numbers[stem(name)] = -1 // one that was not prepared; its proposals are nobody's
		}
	}
	scanner := bufio.NewScanner(in)
	line := 0
	for scanner.Scan() {
		line++
		text := bytes.TrimSpace(scanner.Bytes())
		if line == 1 {
			if text = bytes.TrimPrefix(text, []byte("\ufeff")); string(text) != proposalColumns {
				return fmt.Errorf("%s:1: begins with %q: the first line of proposals is %s", p.path,
					cutText(string(text), 60), proposalColumns)
			}
			continue
		}
		if len(text) == 0 {
			continue
		}
		if err := p.add(text, numbers, store, most); err != nil {
			return fmt.Errorf("%s:%d: %w", p.path, line, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", p.path, line+1, err)
	}
	if line == 0 {
		return fmt.Errorf("%s is empty: the first line of proposals is %s", p.path, proposalColumns)
	}
	return nil
}

// add reads a line behind the first.
func (p *Proposals) add(text []byte, numbers map[string]int, store *photos.Store, most int) error {
	name, rest, _ := bytes.Cut(text, []byte(","))
	n, known := numbers[string(name)]
	if !known {
		return fmt.Errorf("there is no photograph %q in the data set: photo is the name of a file without its "+
			"ending; was the file made of another data set?", string(name))
	}
	var box [4]float32
	for i := range box {
		field, behind, more := bytes.Cut(rest, []byte(","))
		v, err := strconv.ParseFloat(string(field), 32)
		if err != nil || more != (i < 3) {
			return fmt.Errorf("%q is no line of %s", cutText(string(text), 60), proposalColumns)
		}
		box[i], rest = float32(v), behind
	}
	if n < 0 || most > 0 && len(p.boxes[n]) == most {
		return nil
	}
	if err := onPhotograph(wide(box), store, n); err != nil {
		return err
	}
	p.boxes[n] = append(p.boxes[n], box)
	return nil
}

// onPhotograph says whether a box lies on a photograph.
func onPhotograph(b voc.Box, store *photos.Store, n int) error {
	width, height := store.Original(n)
	if !(b[0] >= 1 && b[1] >= 1 && b[2] <= float64(width) && b[3] <= float64(height) && b[0] <= b[2] && b[1] <= b[3]) {
		return fmt.Errorf("the box from %v,%v to %v,%v does not lie on %s, which has %dx%d pixels: the first pixel "+
			"is 1, and both corners belong to the box", b[0], b[1], b[2], b[3], store.Name(n), width, height)
	}
	return nil
}

// of are the proposals of a photograph.
func (p *Proposals) of(photo int) []voc.Box {
	boxes := make([]voc.Box, len(p.boxes[photo]))
	for i, b := range p.boxes[photo] {
		boxes[i] = wide(b)
	}
	return boxes
}

func wide(b [4]float32) voc.Box {
	return voc.Box{float64(b[0]), float64(b[1]), float64(b[2]), float64(b[3])}
}

// complete says whether there are proposals for each of some photographs.
func (p *Proposals) complete(store *photos.Store, numbers []int) error {
	var without []string
	for _, n := range numbers {
		if len(p.boxes[n]) == 0 {
			without = append(without, stem(store.Name(n)))
		}
	}
	if len(without) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no proposal for %d of the %d photographs, %s: make proposals for all", p.path,
		len(without), len(numbers), strings.Join(without[:min(len(without), 3)], ", "))
}

// cutText is the beginning of a text.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "..."
}
