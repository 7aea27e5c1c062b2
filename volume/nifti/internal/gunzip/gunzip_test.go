package gunzip

import (
	"bytes"
	"compress/flate"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/pgzip"
)

// contents are bytes of many kinds: what compresses a thousandfold, what does not compress at all,
// and matches of every distance.
func contents(n int) map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	random, few, words, scan := make([]byte, n), make([]byte, n), []byte{}, []byte{}
	for i := range random {
		random[i] = byte(r.Uint32())
		few[i] = "abcdefgh"[r.IntN(8)&r.IntN(8)]
	}
	for len(words) < n {
		words = append(words, []string{"the ", "scan ", "of ", "a ", "patient ", "lies ", "here. "}[r.IntN(7)]...)
	}
	for i := range n / 2 {
		x := 40 * math.Sin(float64(i%700)/90) * math.Cos(float64(i/700)/40)
		if x < 0 {
			x = -1024 // air
		} else {
			x += r.NormFloat64() * 8
		}
		scan = binary.LittleEndian.AppendUint16(scan, uint16(int16(x)))
	}
	all := map[string][]byte{"nothing": {}, "one byte": {7}, "zeros": make([]byte, n), "random": random,
		"few symbols": few, "words": words, "scan": scan}
	var periods []byte
	for period := 1; period < 40; period++ {
		for i := range n / 40 {
			periods = append(periods, random[i%period+period])
		}
	}
	all["periods"] = periods
	if n > window {
		all["far matches"] = slices.Concat(random[:window], random[:window], random[:window/2])
	}
	all["mixed"] = slices.Concat(random[:n/4], all["zeros"][:n/4], words[:n/4], scan[:n/4])
	return all
}

// writers compress in all the ways that gzip files are made.
var writers = map[string]func([]byte) []byte{
	"stored":       level(gzip.NoCompression),
	"Huffman only": level(gzip.HuffmanOnly),
	"level 1":      level(1),
	"level 3":      level(3),
	"level 6":      level(6),
	"level 9":      level(9),
	"parallel": func(data []byte) []byte {
		var b bytes.Buffer
		z := pgzip.NewWriter(&b)
		z.SetConcurrency(10<<10, 4)
		z.Write(data)
		z.Close()
		return b.Bytes()
	},
	"members": func(data []byte) []byte {
		file := []byte{}
		for n := 0; ; n++ {
			piece := data[:min(len(data), 10_000+n%3)]
			file = append(file, member(piece, n)...)
			if data = data[len(piece):]; len(data) == 0 {
				return append(file, make([]byte, 600)...) // zeros as tapes leave them
			}
		}
	},
}

func level(n int) func([]byte) []byte {
	return func(data []byte) []byte {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, n)
		if err != nil {
			panic(err)
		}
		z.Write(data)
		z.Close()
		return b.Bytes()
	}
}

// member makes one by hand: with every optional part of a header that the bits of n ask for, and
// one final block.
func member(data []byte, n int) []byte {
	flags := byte(n%16) << 1
	file := []byte{0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255}
	if flags&4 != 0 {
		file = append(file, 6, 0, 'B', 'C', 2, 0, 0, 0)
	}
	if flags&8 != 0 {
		file = append(file, "scan.nii\x00"...)
	}
	if flags&16 != 0 {
		file = append(file, "a comment\x00"...)
	}
	if flags&2 != 0 {
		file = binary.LittleEndian.AppendUint16(file, uint16(crc32.ChecksumIEEE(file)))
	}
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, 6)
	z.Write(data)
	z.Close()
	file = append(file, b.Bytes()...)
	file = binary.LittleEndian.AppendUint32(file, crc32.ChecksumIEEE(data))
	return binary.LittleEndian.AppendUint32(file, uint32(len(data)))
}

// plans that make every edge come often.
var plans = []plan{
	{workers: 1, piece: 1000},
	{workers: 1, piece: 100_000},
	{workers: 2, chunk: 5_000, guess: 400_000, piece: 70_001},
	{workers: 3, chunk: 700, guess: 30_000, piece: 333},
	{workers: 8, chunk: 20_001, guess: 1_000_000, piece: 4096},
}

// unzip reads a file from memory.
func unzip(file []byte, wanted int, p plan) ([]byte, error) {
	content := make([]byte, wanted)
	n, err := newReader(bytes.NewReader(file), int64(len(file)), Want{Bytes: int64(wanted), Beyond: 1 << 20,
		Sink: func(offset int64, piece []byte) error {
			copy(content[offset:offset+int64(len(piece))], piece)
			return nil
		}}, p).run()
	return content[:min(n, int64(wanted))], err
}

func TestRoundTrips(t *testing.T) {
	for what, data := range contents(300_000) {
		for writer, compress := range writers {
			file := compress(data)
			for _, p := range plans {
				got, err := unzip(file, len(data)+1, p)
				if err != nil {
					t.Fatalf("%s, %s, %+v: %v", what, writer, p, err)
				}
				if !bytes.Equal(got, data) {
					t.Fatalf("%s, %s, %+v: other bytes (%d of %d)", what, writer, p, len(got), len(data))
				}
			}
		}
	}
}

// Whether guesses are right does not show in what is read, only in the time.
func TestGuessesAreRight(t *testing.T) {
	data := contents(2_000_000)["scan"]
	for _, writer := range []string{"level 1", "level 6", "parallel", "members", "Huffman only"} {
		file := writers[writer](data)
		content := make([]byte, len(data))
		r := newReader(bytes.NewReader(file), int64(len(file)), Want{Bytes: int64(len(data)), Beyond: 1,
			Sink: func(offset int64, piece []byte) error {
				copy(content[offset:], piece)
				return nil
			}}, plan{workers: 2, chunk: 100_000, guess: 1 << 20, piece: 100_000})
		w := newWorker(r)
		w.chunk(0)
		for k := 1; k < len(r.results); k++ {
			g := w.guess(k)
			w.finish(k, <-r.turns[k], g)
			if !r.results[k].guessed && k < len(r.results)-1 { // the last one may be too short
				t.Errorf("%s: chunk %d of %d was not decoded ahead", writer, k, len(r.results))
			}
		}
		if !bytes.Equal(content, data) {
			t.Errorf("%s: other bytes", writer)
		}
	}
}

func TestPartIsReadOnly(t *testing.T) {
	data := contents(300_000)["mixed"]
	file := level(6)(data)
	file = file[:len(file)-40] // never looked at
	for _, p := range plans {
		content := make([]byte, 1000)
		n, err := newReader(bytes.NewReader(file), int64(len(file)),
			Want{Bytes: 1000, Sink: func(offset int64, piece []byte) error {
				if offset+int64(len(piece)) > 1000 {
					t.Errorf("%d bytes at %d: more than wanted", len(piece), offset)
					return nil
				}
				copy(content[offset:], piece)
				return nil
			}}, p).run()
		if err != nil || n < 1000 || !bytes.Equal(content, data[:1000]) {
			t.Errorf("%+v: %d bytes, %v", p, n, err)
		}
	}
}

func TestSinkFails(t *testing.T) {
	file := level(6)(contents(300_000)["mixed"])
	want := errors.New("full")
	for _, p := range plans {
		if _, err := read(bytes.NewReader(file), int64(len(file)),
			Want{Bytes: 300_000, Sink: func(offset int64, _ []byte) error {
				if offset > 100_000 {
					return want
				}
				return nil
			}}, p); err != want {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestDamageIsFound(t *testing.T) {
	data := []byte("some bytes, some more bytes, and some more")
	file := level(6)(data)
	change := func(at int, xor byte) []byte {
		f := bytes.Clone(file)
		f[(at+len(f))%len(f)] ^= xor
		return f
	}
	// The bits of a fixed block's symbols, and of a block's header.
	raw := func(deflated ...byte) []byte { return slices.Concat(file[:10], deflated, make([]byte, 8)) }
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"nothing", nil, io.ErrUnexpectedEOF},
		{"another magic", change(1, 1), ErrHeader},
		{"another method", change(2, 1), ErrHeader},
		{"unknown flag", change(3, 1<<5), ErrHeader},
		{"name without an end", change(3, 1<<3)[:12], io.ErrUnexpectedEOF},
		{"header's checksum", slices.Concat([]byte{0x1f, 0x8b, 8, 2, 0, 0, 0, 0, 0, 0, 1, 2}, file[10:]), ErrHeader},
		{"checksum", change(-5, 1), ErrChecksum},
		{"length", change(-1, 1), ErrChecksum},
		{"other data behind", append(bytes.Clone(file), "x"...), errGarbage},
		{"half a second member", slices.Concat(file, file[:len(file)-9]), io.ErrUnexpectedEOF},
		{"wrong checksum, then half a second member", slices.Concat(change(-5, 1), file[:len(file)-9]), ErrChecksum},
		{"garbage after the second member", slices.Concat(file, file, []byte{0, 0, 3}), errGarbage},
		{"block of the fourth kind", raw(7), errDamaged},
		{"stored block's length", raw(1, 1, 0, 1, 0), errDamaged},
		{"match before the beginning", raw(0x03, 0x02, 0x00), errDamaged},
		{"too many literal codes", raw(0xf5, 0xff, 0xff, 0xff), errDamaged},
		{"no code lengths", raw(5, 0, 0, 0, 0, 0, 0, 0, 0), errDamaged},
	} {
		for _, p := range plans {
			p.chunk = max(p.chunk/1000, 1)
			if _, err := read(bytes.NewReader(c.file), int64(len(c.file)),
				Want{Bytes: 1000, Beyond: 1000, Sink: func(int64, []byte) error { return nil }}, p); !errors.Is(err,
				c.want) {
				t.Errorf("%s, %+v: %v, want %v", c.name, p, err, c.want)
			}
		}
	}
	for n := range file {
		if _, err := unzip(file[:n], 100, plans[0]); err == nil {
			t.Errorf("cut after %d of %d bytes: no error", n, len(file))
		}
		for bit := range 8 {
			got, err := unzip(change(n, 1<<bit), 100, plans[0])
			if err == nil && !bytes.Equal(got, data) {
				t.Errorf("bit %d of byte %d changed: other content and no error", bit, n)
			}
		}
	}
}

func TestCombine(t *testing.T) {
	data := contents(10_000)["random"]
	for _, n := range []int{0, 1, 2, 3, 100, 4097, 9999, 10_000} {
		if got, want := combine(crc32.ChecksumIEEE(data[:n]), crc32.ChecksumIEEE(data[n:]), int64(len(data)-n)),
			crc32.ChecksumIEEE(data); got != want {
			t.Errorf("at %d: %08x, want %08x", n, got, want)
		}
	}
}

// inflate decompresses without gzip's members around, and returns how many bytes of data were used.
func inflate(data []byte, piece int) (content []byte, used int, err error) {
	d := decoder{input: &input{}}
	d.reset(bytes.NewReader(data), int64(len(data)))
	if err := d.seek(0); err != nil {
		return nil, 0, err
	}
	out := make([]byte, window+piece+slack)
	low := window
	for !d.final || d.kind != noBlock {
		if d.kind == noBlock {
			if err := d.begin(); err != nil {
				return content, 0, err
			}
		}
		stop, err := block(&d, out, window, low)
		if err != nil {
			return content, 0, err
		}
		content = append(content, out[window:stop]...)
		copy(out, out[stop-window:stop])
		low = max(0, low-(stop-window))
	}
	return content, int(d.bit()+7) / 8, nil
}

// Any bytes are decompressed as by compress/flate, or refused as by it.
func FuzzInflate(f *testing.F) {
	for _, data := range contents(3000) {
		for n := flate.HuffmanOnly; n <= 9; n++ {
			var b bytes.Buffer
			z, _ := flate.NewWriter(&b, n)
			z.Write(data)
			z.Close()
			f.Add(b.Bytes())
		}
	}
	const most = 4 << 20
	f.Fuzz(func(t *testing.T, data []byte) {
		source := bytes.NewReader(data)
		want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(source), most))
		if len(want) == most {
			return
		}
		got, used, err := inflate(data, 5000)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, compress/flate's %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(got, want) || used != len(data)-source.Len() {
			t.Fatalf("%d bytes of %d, want %d of %d, or others", len(got), used, len(want), len(data)-source.Len())
		}
	})
}

// A file is the same content, or the same error, however the work is cut.
func FuzzPlans(f *testing.F) {
	for _, data := range contents(3000) {
		for _, compress := range writers {
			f.Add(compress(data), uint16(300), uint16(2000))
		}
	}
	const most = 1 << 20
	f.Fuzz(func(t *testing.T, file []byte, chunk, guess uint16) {
		if len(file) > 64<<10 {
			return
		}
		want, wantErr := unzip(file, most, plan{workers: 1, piece: 40_000})
		got, err := unzip(file, most, plan{workers: 3, chunk: int64(chunk%5000) + 50, guess: int(guess),
			piece: int(guess%777) + 1})
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%v, and %v with one worker", err, wantErr)
		}
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("other bytes: %d, and %d with one worker", len(got), len(want))
		}
	})
}

// What was compressed comes back.
func FuzzRoundTrip(f *testing.F) {
	for _, data := range contents(2000) {
		f.Add(data, uint8(6), uint16(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, n uint8, times uint16) {
		if len(data) > 16<<10 {
			return
		}
		data = bytes.Repeat(data, 1+int(times)%20)
		names := []string{}
		for name := range writers {
			names = append(names, name)
		}
		slices.Sort(names)
		file := writers[names[int(n)%len(names)]](data)
		for _, p := range plans[2:] {
			if got, err := unzip(file, len(data)+1, p); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%+v: %v, %d of %d bytes", p, err, len(got), len(data))
			}
		}
	})
}

// Beside the libraries that most programs in Go use, one core each: times says how many times as
// fast this package is.
func BenchmarkRead(b *testing.B) {
	data := contents(32 << 20)["scan"]
	file := level(6)(data)
	sink := func(int64, []byte) error { return nil }
	once := func(n int, read func() error) time.Duration {
		best := time.Duration(math.MaxInt64)
		for range n {
			start := time.Now()
			if err := read(); err != nil {
				b.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	others := map[string]time.Duration{
		"compress/gzip": once(3, func() error {
			z, err := stdgzip.NewReader(bytes.NewReader(file))
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, z)
			return err
		}),
		"klauspost": once(3, func() error {
			z, err := gzip.NewReader(bytes.NewReader(file))
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, z)
			return err
		}),
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			best := time.Duration(math.MaxInt64)
			for b.Loop() {
				p := sizes(int64(len(file)), int64(len(data)))
				p.workers = workers
				best = min(best, once(1, func() error {
					_, err := read(bytes.NewReader(file), int64(len(file)), Want{Bytes: int64(len(data)), Beyond: 1,
						Sink: sink}, p)
					return err
				}))
			}
			for name, t := range others {
				b.ReportMetric(float64(t)/float64(best), "times_"+name)
			}
		})
	}
}
