package photo

import (
	"bytes"
	"errors"
	"image"
	"image/draw"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pixels reads a golden picture as RGB.
func pixels(t *testing.T, path string) (rgb []byte, width, height int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	width, height = m.Bounds().Dx(), m.Bounds().Dy()
	canvas := image.NewRGBA(m.Bounds())
	draw.Draw(canvas, m.Bounds(), m, image.Point{}, draw.Src)
	for n := 0; n < len(canvas.Pix); n += 4 {
		rgb = append(rgb, canvas.Pix[n:n+3]...)
	}
	return rgb, width, height
}

// compare gives the largest and the mean difference of bytes.
func compare(a, b []byte) (largest int, mean float64) {
	for n := range a {
		d := int(a[n]) - int(b[n])
		d = max(d, -d)
		largest = max(largest, d)
		mean += float64(d) / float64(len(a))
	}
	return largest, mean
}

// files lists testdata's photographs, the goldens apart.
func files(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/files/*")
	if err != nil || len(all) < 30 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return slices.DeleteFunc(all, func(name string) bool { return strings.Count(filepath.Base(name), ".") > 1 })
}

// Every kind of file is decoded to what Pillow, with libjpeg, libpng and so on, makes of it.
func TestDecodeIsPillows(t *testing.T) {
	for _, name := range files(t) {
		if name == filepath.FromSlash("testdata/files/arithmetic.jpg") {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			p, err := Read(name)
			if err != nil {
				t.Fatal(err)
			}
			want, width, height := pixels(t, name+".rgb.png")
			if p.Width != width || p.Height != height {
				t.Fatalf("%d x %d pixels, want %d x %d", p.Width, p.Height, width, height)
			}
			got := make([]byte, 3*width*height)
			NewResizer(width, height, Warp).Resize(got, p)
			most, onAverage := tolerance(filepath.Base(name))
			largest, mean := compare(got, want)
			beyond := 0.0 // share of bytes that differ by more than two levels
			for n := range got {
				if d := int(got[n]) - int(want[n]); d > 2 || d < -2 {
					beyond += 1 / float64(len(got))
				}
			}
			t.Logf("%s differs by %d at most, %.3f on average, %.4f %% by more than 2", name, largest, mean, 100*beyond)
			if largest > most || mean > onAverage || most <= 3 && beyond > 0.001 {
				t.Errorf("differs by %d at most, %.3f on average, %.4f %% by more than 2; want %d and %.3f", largest,
					mean, 100*beyond, most, onAverage)
			}
		})
	}
}

// tolerance is how far decoding may be from Pillow's.
func tolerance(name string) (most int, mean float64) {
	switch {
	case name == "lossy.webp": // its chroma is rounded once more
		return 3, 0.6
	case strings.HasSuffix(name, ".jpg"): // libjpeg rounds chroma once more
		return 2, 0.4
	case strings.Contains(name, "alpha"): // over white
		return 1, 0.3
	}
	return 1, 0.02
}

var goldenSize = regexp.MustCompile(`^(.*)\.(\d+)x(\d+)\.(warp|crop)\.png$`)

// Resized photographs are Pillow's, on average within one level.
func TestResizeIsPillows(t *testing.T) {
	goldens, err := filepath.Glob("testdata/files/*.png")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range goldens {
		parts := goldenSize.FindStringSubmatch(filepath.Base(path))
		if parts == nil {
			continue
		}
		seen++
		t.Run(filepath.Base(path), func(t *testing.T) {
			p, err := Read(filepath.Join("testdata", "files", parts[1]))
			if err != nil {
				t.Fatal(err)
			}
			want, width, height := pixels(t, path)
			if strconv.Itoa(width) != parts[2] || strconv.Itoa(height) != parts[3] {
				t.Fatalf("the golden has %d x %d pixels", width, height)
			}
			got := make([]byte, len(want))
			NewResizer(width, height, Fit(parts[4])).Resize(got, p)
			largest, mean := compare(got, want)
			t.Logf("differs by %d at most, %.3f on average", largest, mean)
			// Pillow resizes colours that it has cut off at 0 and 255; here they are cut off last.
			if largest > 8 || mean > 0.5 {
				t.Errorf("differs by %d at most, %.3f on average; want 8 and 0.5", largest, mean)
			}
		})
	}
	if seen < 20 {
		t.Errorf("%d goldens", seen)
	}
}

// A resizer that has seen other photographs gives the same bytes as a new one, and so does a
// machine without assembly.
func TestResizeRepeats(t *testing.T) {
	was := fast
	defer func() { fast = was }()
	for _, size := range [][2]int{{255, 255}, {9, 8}, {17, 100}} {
		used := NewResizer(size[0], size[1], Crop)
		for _, name := range files(t) {
			p, err := Read(name)
			if err != nil {
				continue
			}
			got, again := make([]byte, 3*size[0]*size[1]), make([]byte, 3*size[0]*size[1])
			fast = was
			used.Resize(got, p)
			fast = false
			NewResizer(size[0], size[1], Crop).Resize(again, p)
			if !bytes.Equal(got, again) {
				largest, mean := compare(got, again)
				t.Errorf("%s at %v: differs by %d at most, %g on average", name, size, largest, mean)
			}
		}
	}
}

// Weights add up to one, to the bit: flat areas stay as they are, and nothing overflows.
func TestFlatStaysFlat(t *testing.T) {
	for _, value := range []byte{0, 1, 127, 128, 254, 255} {
		for _, source := range [][2]int{{8, 8}, {9, 1001}, {640, 31}, {255, 255}} {
			p := &Photo{Width: source[0], Height: source[1], orientation: 1}
			p.allocate()
			for _, pl := range p.planes {
				for n := range pl.pix {
					pl.pix[n] = value
				}
			}
			for _, fit := range Fits {
				for _, size := range [][2]int{{255, 255}, {8, 300}, {31, 7}} {
					dst := make([]byte, 3*size[0]*size[1])
					NewResizer(size[0], size[1], fit).Resize(dst, p)
					if n := slices.IndexFunc(dst, func(b byte) bool { return b != value }); n >= 0 {
						t.Fatalf("%v to %v, %s: byte %d is %d, not %d", source, size, fit, n, dst[n], value)
					}
				}
			}
		}
	}
}

// The kernels' sums do not overflow between black and white.
func TestWeightsAreOne(t *testing.T) {
	for _, r := range []resampling{
		{500, 1, false, 500, 255, 0, 255}, {250, 2, true, 500, 255, 0, 255}, {3, 2, true, 5, 255, 0, 255},
		{2, 4, false, 8, 3, 0, 3}, {4000, 1, false, 4000, 10, 2, 5}, {8, 1, false, 8, 8, 0, 8},
	} {
		for _, mayReach := range []bool{false, true} {
			a := r.axis(2, 1, mayReach)
			for x := range r.n {
				total := 0
				for _, w := range a.weights[x*a.taps : (x+1)*a.taps] {
					total += int(w)
					if w < 0 {
						t.Errorf("%+v: weight %d", r, w)
					}
				}
				if total != 1<<14 || a.starts[x] < 0 || !mayReach && int(a.starts[x])+a.taps > r.samples {
					t.Errorf("%+v: result %d begins at %d and weighs %d", r, x, a.starts[x], total)
				}
			}
		}
	}
}

// What is wrong with a file is said in one line, with what to do.
func TestRefusals(t *testing.T) {
	good, err := os.ReadFile("testdata/files/baseline-420.jpg")
	if err != nil {
		t.Fatal(err)
	}
	progressive, err := os.ReadFile("testdata/files/progressive-420.jpg")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("testdata/files/alpha.png")
	if err != nil {
		t.Fatal(err)
	}
	var dot bytes.Buffer
	if err := png.Encode(&dot, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	resized := func(data []byte, width, height int) []byte {
		data = bytes.Clone(data)
		for n := range data {
			if data[n] == 0xff && (data[n+1] == 0xc0 || data[n+1] == 0xc2) {
				data[n+5], data[n+6], data[n+7], data[n+8] = byte(height>>8), byte(height), byte(width>>8), byte(width)
				return data
			}
		}
		t.Fatal("no frame")
		return nil
	}
	huge := bytes.Clone(picture)
	// and a checksum that is no longer right
	copy(huge[16:], "\x00\x00\x75\x30\x00\x00\x75\x30\x08\x02\x00\x00\x00")
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":             {nil, "the file is empty: copy or download it again"},
		"cut":               {good[:len(good)/2], "the JPEG is cut off: copy or download it again"},
		"cut at the end":    {good[:len(good)-2], "the JPEG is cut off"},
		"cut in the header": {good[:100], "the JPEG is cut off"},
		"filled with zeros": {append(bytes.Clone(good[:len(good)/2]), make([]byte, 5000)...),
			"the JPEG is cut off"},
		"progressive, cut": {progressive[:len(progressive)*2/3], "the JPEG is cut off"},
		"PNG, cut": {picture[:len(picture)/2],
			"the PNG cannot be decoded (png: invalid format: not enough pixel data): save it again"},
		"one pixel": {dot.Bytes(),
			"1 x 1 pixels are too few for a photograph (at least 8 x 8): leave it out"},
		"one pixel, JPEG": {resized(good, 1, 1), "1 x 1 pixels are too few"},
		"30000 x 30000": {resized(good, 30000, 30000),
			"30000 x 30000 pixels are too many (at most 178 million): scale it down"},
		"30000, progressive": {resized(progressive, 30000, 30000), "30000 x 30000 pixels are too many"},
		"claims too much":    {resized(good, 9000, 9000), "the JPEG is cut off"},
		"30000, PNG":         {huge, ""},
		"LFS": {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"),
			"a Git LFS pointer, not the photograph itself: run git lfs pull"},
		"HTML": {[]byte("\n<!DOCTYPE html><html>403"),
			"a web page, not a photograph: download the photograph again"},
		"macOS": {[]byte("\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X"),
			"a macOS attribute file, not a photograph: delete it"},
		"HEIC": {[]byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00"),
			"HEIC is not read: convert it to JPEG or PNG"},
		"DICOM": {append(make([]byte, 128), "DICM\x02\x00"...),
			"a scan (DICOM file), not a photograph: voxsaw prepare reads scans"},
		"text":                  {[]byte("n02979186 0\n"), "no format of photographs that is known: use JPEG"},
		"precision":             {twelveBits(good), "a JPEG of 12 bits a sample is not read"},
		"only the start marker": {[]byte("\xff\xd8\xff"), "the JPEG is cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(c.data)
			var p *Problem
			if !errors.As(err, &p) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	_, err = Read("testdata/files/arithmetic.jpg")
	if err == nil || !strings.Contains(err.Error(), "arithmetic.jpg: a JPEG with arithmetic coding") {
		t.Errorf("arithmetic coding: %v", err)
	}
	if _, err := Read("testdata/nothing.jpg"); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "nothing.jpg") {
		t.Errorf("no file: %v", err)
	}
	if _, err := Decode(append(bytes.Clone(good), "what some cameras append"...)); err != nil {
		t.Errorf("bytes behind the end: %v", err)
	}
}

func twelveBits(data []byte) []byte {
	data = bytes.Clone(data)
	n := bytes.Index(data, []byte{0xff, 0xc0})
	data[n+4] = 12
	return data
}

// A header alone takes no memory for pixels.
func TestLargeIsRefusedBeforeAllocation(t *testing.T) {
	data, err := os.ReadFile("testdata/files/progressive-420.jpg")
	if err != nil {
		t.Fatal(err)
	}
	n := bytes.Index(data, []byte{0xff, 0xc2})
	copy(data[n+5:], "\x75\x30\x75\x30")
	bytesTaken := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := Decode(data); err == nil {
				b.Fatal("decoded")
			}
		}
	}).AllocedBytesPerOp()
	if bytesTaken > 1<<16 {
		t.Errorf("%d bytes", bytesTaken)
	}
}

// Formats are told by content.
func TestSniff(t *testing.T) {
	for _, name := range files(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Format{".jpg": JPEG, ".png": PNG, ".gif": GIF, ".bmp": BMP, ".webp": WebP,
			".tif": TIFF}[filepath.Ext(name)]
		if got := Sniff(data[:min(len(data), SniffLen)]); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Orientations are involutions or turns: applied to numbered pixels they give EXIF's pictures of an
// F (EXIF 2.32, figure 3).
func TestOrientations(t *testing.T) {
	stored := []byte("AAABBBCCCDDDEEEFFF") // ABC over DEF
	for o, want := range map[orientation]string{1: "ABCDEF", 2: "CBAFED", 3: "FEDCBA", 4: "DEFABC", 5: "ADBECF",
		6: "DAEBFC", 7: "FCEBDA", 8: "CFBEAD"} {
		dst := make([]byte, len(stored))
		o.apply(dst, stored, 3, 2)
		var got string
		for n := 0; n < len(dst); n += 3 {
			got += string(dst[n])
		}
		if got != want {
			t.Errorf("orientation %d: %s, want %s", o, got, want)
		}
	}
}

// FuzzDecode: no bytes make the reader fail other than by a Problem, or give pixels that are not
// there.
func FuzzDecode(f *testing.F) {
	all, err := filepath.Glob("testdata/files/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range all {
		if strings.Count(filepath.Base(name), ".") > 1 {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	resizer := NewResizer(33, 40, Crop)
	dst := make([]byte, 3*33*40)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		var known *Problem
		switch {
		case err != nil && !errors.As(err, &known):
			t.Errorf("%v", err)
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("more than a line: %q", err)
		case err == nil && (p.Width < MinSide || p.Height < MinSide || p.Width*p.Height > MaxPixels):
			t.Errorf("%d x %d pixels", p.Width, p.Height)
		case err == nil:
			resizer.Resize(dst, p)
		}
	})
}

// photographs are those of $VOXSAW_PHOTOS, a folder, or of testdata.
func photographs(b *testing.B) (data [][]byte, pixels float64) {
	names, err := filepath.Glob(filepath.Join(os.Getenv("VOXSAW_PHOTOS"), "*"))
	if os.Getenv("VOXSAW_PHOTOS") == "" || err != nil || len(names) == 0 {
		names = []string{"testdata/files/baseline-420.jpg"}
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		if p, err := Decode(content); err == nil {
			data, pixels = append(data, content), pixels+float64(p.Width*p.Height)
		}
	}
	return data, pixels / float64(len(data))
}

// BenchmarkPhoto decodes photographs and resizes them to 255 x 255.
func BenchmarkPhoto(b *testing.B) {
	data, size := photographs(b)
	resizer, dst := NewResizer(255, 255, Warp), make([]byte, 3*255*255)
	b.ReportMetric(math.Round(size), "pixels")
	b.ResetTimer()
	for n := range b.N {
		p, err := Decode(data[n%len(data)])
		if err != nil {
			b.Fatal(err)
		}
		resizer.Resize(dst, p)
	}
}

// BenchmarkResize is the part of it that is not decoding.
func BenchmarkResize(b *testing.B) {
	data, _ := photographs(b)
	p, err := Decode(data[0])
	if err != nil {
		b.Fatal(err)
	}
	resizer, dst := NewResizer(255, 255, Warp), make([]byte, 3*255*255)
	for b.Loop() {
		resizer.Resize(dst, p)
	}
}
