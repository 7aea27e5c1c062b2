package photo

import (
	"fmt"
	"math"
	"strings"
)

// A Fit says how a photograph comes to a size with another shape.
type Fit string

const (
	// Warp stretches it.
	Warp Fit = "warp"
	// Crop scales it until it covers the size, and keeps the middle: torchvision's Resize of the
	// shorter side and CenterCrop.
	Crop Fit = "crop"
)

// Fits lists all.
var Fits = []Fit{Warp, Crop}

// ParseFit reads a word.
func ParseFit(word string) (Fit, error) {
	var words []string
	for _, f := range Fits {
		if string(f) == word {
			return f, nil
		}
		words = append(words, string(f))
	}
	return "", fmt.Errorf("unknown fit %q: the valid ones are %s", word, strings.Join(words, ", "))
}

// A Resizer brings photographs to one size, by Pillow's antialiased BILINEAR. It keeps weights and
// scratch memory from one photograph to the next, and belongs to one goroutine.
type Resizer struct {
	width, height int
	fit           Fit

	axes    map[axisKey]*axis
	weighed []int16    // a row of a plane, after the vertical sums
	row     [3][]int16 // a row of each channel, after both
	pixels  []byte     // the same as bytes
	stored  []byte     // the result, before it is turned
}

type axisKey struct {
	resampling
	vertical bool
}

// NewResizer makes a resizer to width x height pixels.
func NewResizer(width, height int, fit Fit) *Resizer {
	return &Resizer{width: width, height: height, fit: fit, axes: map[axisKey]*axis{}}
}

// Resize writes a photograph: height rows of width red, green and blue bytes.
func (r *Resizer) Resize(dst []byte, p *Photo) {
	if len(dst) != 3*r.width*r.height {
		panic(fmt.Sprintf("photo: %d bytes for %d x %d pixels", len(dst), r.width, r.height))
	}
	v := r.view(p)
	if p.orientation == 1 {
		r.resize(dst, p, v)
		return
	}
	r.stored = grow(r.stored, len(dst))
	r.resize(r.stored, p, v)
	p.orientation.apply(dst, r.stored, v.x.n, v.y.n)
}

// view is what is wanted of a photograph, along the axes of its stored pixels.
type view struct{ x, y resampling }

func (r *Resizer) view(p *Photo) view {
	width, height := r.width, r.height // of all of it
	if r.fit == Crop {
		if p.Width*r.height > p.Height*r.width {
			width = r.height * p.Width / p.Height
		} else {
			height = r.width * p.Height / p.Width
		}
	}
	middle := func(all, wanted int) int { return int(math.RoundToEven(float64(all-wanted) / 2)) }
	v := view{
		x: resampling{from: p.Width, to: width, first: middle(width, r.width), n: r.width},
		y: resampling{from: p.Height, to: height, first: middle(height, r.height), n: r.height},
	}
	if p.orientation.transposes() {
		v.x, v.y = v.y, v.x
	}
	flipX, flipY := p.orientation.flips()
	if flipX {
		v.x.first = v.x.to - v.x.first - v.x.n
	}
	if flipY {
		v.y.first = v.y.to - v.y.first - v.y.n
	}
	return v
}

func (r *Resizer) resize(dst []byte, p *Photo, v view) {
	type pass struct{ x, y *axis }
	passes := make([]pass, len(p.planes))
	width := roundUp(v.x.n, lanes)
	longest := 0
	for c, pl := range p.planes {
		// as libjpeg decides it: two pixels a sample at most, and more than two samples
		smooth := pl.across <= 2 && pl.down <= 2 && pl.width > 2
		x, y := v.x, v.y
		x.samples, x.spread, x.smooth = pl.width, pl.across, smooth
		y.samples, y.spread, y.smooth = pl.height, pl.down, smooth
		passes[c] = pass{r.axis(axisKey{x, false}), r.axis(axisKey{y, true})}
		longest = max(longest, pl.width+passes[c].x.taps)
	}
	r.weighed = grow(r.weighed, longest)
	for c := range r.row {
		r.row[c] = grow(r.row[c], width)
	}
	r.pixels = grow(r.pixels, 3*width)
	row := r.row
	if len(p.planes) == 1 {
		row[1], row[2] = row[0], row[0]
	}
	for y := range v.y.n {
		for c, pl := range p.planes {
			a := passes[c].y
			weighRows(r.weighed[:pl.width], pl.pix[int(a.starts[y])*pl.stride:], pl.stride,
				a.weights[y*a.taps:(y+1)*a.taps])
			weighColumns(row[c], r.weighed, passes[c].x)
		}
		if p.chroma {
			toColours(r.pixels, row[0], row[1], row[2])
		} else {
			toPixels(r.pixels, row[0], row[1], row[2])
		}
		copy(dst[3*v.x.n*y:], r.pixels[:3*v.x.n])
	}
}

// axis gives the weights of a resampling, which many photographs have in common.
func (r *Resizer) axis(key axisKey) *axis {
	if a := r.axes[key]; a != nil {
		return a
	}
	const most = 256
	if len(r.axes) >= most {
		clear(r.axes)
	}
	var a *axis
	if key.vertical {
		a = key.resampling.axis(2, 1, false) // rows that are not there cannot be read
	} else {
		a = key.resampling.axis(8, lanes, true) // the scratch row is long enough
	}
	r.axes[key] = a
	return a
}

// grow gives a slice of the length, the same one where it is long enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
