package photos

import (
	"bytes"
	"context"
	"errors"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// real are the photographs of testdata/proposals, prepared in a way.
func real(t testing.TB, quality int) string {
	t.Helper()
	set, err := Find("../../testdata/proposals", 0.25, 1)
	if err != nil {
		t.Fatal(err)
	}
	o, dir := DefaultOptions(), filepath.Join(t.TempDir(), "prepared")
	o.JPEG = quality
	if _, err := Prepare(context.Background(), set, dir, o, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Photographs kept as JPEGs are what image/jpeg decodes of the files, near the pixels that would
// have been kept, and a tenth of these.
func TestJPEGsArePhotographs(t *testing.T) {
	before := shardBytes
	shardBytes = 7 * 3 * 255 * 255 // several shards
	defer func() { shardBytes = before }()
	raw, dir := open(t, real(t, 0)), real(t, 95)
	s := open(t, dir)
	if s.Len() != 20 || raw.Len() != 20 || s.Fingerprint() == raw.Fingerprint() {
		t.Fatalf("%d and %d photographs", s.Len(), raw.Len())
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
	var worst, lost, sum, count float64
	var mean [3]float64
	for n := range s.Len() {
		got, err := s.At(n)
		if err != nil {
			t.Fatal(err)
		}
		r := s.Record(n)
		shard, err := os.ReadFile(shardFile(dir, r.Shard, "jpegs"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := jpeg.Decode(bytes.NewReader(shard[r.Begin:][:r.Bytes]))
		if err != nil {
			t.Fatal(err)
		}
		pixels, err := raw.At(n)
		if err != nil {
			t.Fatal(err)
		}
		apart := 0.0
		for i := range 255 * 255 {
			cr, cg, cb, _ := m.At(i%255, i/255).RGBA()
			for c, v := range []uint32{cr, cg, cb} {
				apart += math.Abs(float64(v>>8)-float64(got[3*i+c])) / (3 * 255 * 255)
				lost += math.Abs(float64(pixels[3*i+c])-float64(got[3*i+c])) / (20 * 3 * 255 * 255)
				if s.Split(n) == Train {
					mean[c] += float64(got[3*i+c])
				}
			}
		}
		if worst = max(worst, apart); s.Split(n) == Train {
			count += 255 * 255
		}
		sum += float64(r.Bytes)
	}
	for c := range mean {
		if math.Abs(mean[c]/count-s.Mean()[c]) > 1e-6 {
			t.Errorf("mean of colour %d: %v, of what is seen %v", c, s.Mean()[c], mean[c]/count)
		}
	}
	t.Logf("%.0f bytes a photograph of %d; %.2f levels from the pixels; at most %.2f from image/jpeg", sum/20,
		raw.index.bytes(), lost, worst)
	// libjpeg smooths chroma where image/jpeg repeats it
	if worst > 1.5 || lost > 2.5 || sum/20 > float64(raw.index.bytes())/5 {
		t.Errorf("%.0f bytes a photograph, %.2f levels from the pixels, %.2f from image/jpeg", sum/20, lost, worst)
	}
}

// JPEGs are gone on with, are not taken for pixels, and damage is found.
func TestJPEGsAreKept(t *testing.T) {
	dir := real(t, 80)
	set, err := Find("../../testdata/proposals", 0.25, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	o.JPEG = 80
	if summary, err := Prepare(context.Background(), set, dir, o, nil); err != nil || summary.Kept != 20 {
		t.Errorf("%+v, %v", summary, err)
	}
	o.JPEG = 0
	var replaced *ReplaceError
	if _, err := Prepare(context.Background(), set, dir, o, nil); !errors.As(err, &replaced) ||
		!strings.Contains(err.Error(), "they are kept as JPEGs of quality 80, and are to be kept as pixels") {
		t.Errorf("pixels over JPEGs: %v", err)
	}
	shard := shardFile(dir, 0, "jpegs")
	data, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0xff
	if err := os.WriteFile(shard, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if problems, err := Verify(context.Background(), dir); err != nil || len(problems) != 1 {
		t.Errorf("of a damaged shard: %v, %v", problems, err)
	}
	if err := open(t, dir).Verify(); err == nil {
		t.Error("a damaged shard is whole")
	}
	o.Force = true
	if _, err := Prepare(context.Background(), set, dir, o, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, shardsFolder, "*.jpegs")); err != nil || left != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := open(t, dir).Verify(); err != nil {
		t.Error(err)
	}
	o.JPEG = 101
	if err := o.Check(); err == nil {
		t.Error("a quality of 101")
	}
	// smaller than a JPEG's header
	o.JPEG, o.Size = 95, [2]int{16, 16}
	if _, err := Prepare(context.Background(), set, filepath.Join(t.TempDir(), "small"), o, nil); err != nil {
		t.Error(err)
	}
}

// What it takes to look at a photograph of 255x255, and its bytes on disk.
func BenchmarkAt(b *testing.B) {
	for _, quality := range []int{0, 90, 95} {
		b.Run(keptAs(quality), func(b *testing.B) {
			s := open(b, real(b, quality))
			stored := 0
			for n := range s.Len() {
				stored += s.Record(n).Bytes
			}
			if quality == 0 {
				stored = s.Len() * s.index.bytes()
			}
			k, sum := 0, 0
			for b.Loop() {
				pixels, err := s.At(k % s.Len())
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; i < len(pixels); i += 64 { // each cache line, as a crop reads them
					sum += int(pixels[i])
				}
				k++
			}
			if sum == 0 {
				b.Error("all is black")
			}
			b.ReportMetric(float64(stored)/float64(s.Len()), "bytes/photo")
		})
	}
}
