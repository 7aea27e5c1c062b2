package jpeg2000

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Code words of a context are a complete prefix code: whatever bits follow, one code word fits.
func TestCodeWordsAreComplete(t *testing.T) {
	for n, contexts := range vlcRows {
		for context, rows := range contexts {
			var count [128]int
			for _, row := range rows {
				rho, known, ones, length, word := row>>20, row>>12&15, row>>8&15, row>>16&7, row&0xFF
				if known&^rho != 0 || ones&^known != 0 || row>>19&1 == 0 && known != 0 || word>>length != 0 {
					t.Errorf("table %d, context %d: row %06X contradicts itself", n, context, row)
				}
				for w := word; w < 128; w += 1 << length {
					count[w]++
				}
			}
			for w, c := range count {
				if c != 1 {
					t.Errorf("table %d, context %d: %d code words fit %07b", n, context, c, w)
				}
			}
		}
	}
}

// Segments lose their stuffed bits as T.814 has it for single bits (clause 7.1.2).
func TestUnstuff(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var memory []byte
	for n := range 2000 {
		data := make([]byte, r.IntN(60))
		for k := range data {
			// many of the bytes that matter
			data[k] = []byte{0xFF, 0x7F, 0x8F, 0x90, byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}[r.IntN(7)]
			if n%3 == 0 {
				data[k] &= 0x6F
			}
		}
		var want []uint32
		add := func(b byte, width int) {
			for k := range width {
				want = append(want, uint32(b)>>k&1)
			}
		}
		for k, b := range data {
			add(b, 8-btoi(k > 0 && data[k-1] == 0xFF))
		}
		check := func(name string, got []byte, count int, after uint32) {
			t.Helper()
			if count != len(want) || 8*len(got) < count+8*1024 {
				t.Fatalf("%s of %x: %d bits in %d bytes, want %d", name, data, count, len(got), len(want))
			}
			reader := bitReader{data: got}
			for k := range count + 8*1024 {
				w := after
				if k < count {
					w = want[k]
				}
				if bit := reader.bit(); bit != w {
					t.Fatalf("%s of %x: bit %d is %d", name, data, k, bit)
				}
			}
		}
		var count int
		memory, count = unstuff(memory, data, &oneSlack)
		check("unstuff", memory, count, 1)
		memory, count = unstuff(memory, data, &zeroSlack)
		check("unstuff", memory, count, 0)

		before := []byte{0, 0x8F, 0x90, 0xFF}[r.IntN(4)]
		want = []uint32{1, 0, 1}
		last := before
		for _, b := range slices.Backward(data) {
			add(b, 8-btoi(last > 0x8F && b&0x7F == 0x7F))
			last = b
		}
		memory, count = unstuffBackwards(memory, data, before, 0b101, 3)
		check("unstuffBackwards", memory, count, 0)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// encodeMEL codes events (T.814 clause 7.3.3, the other way round).
func encodeMEL(events []bool) []byte {
	var code []uint8 // bits
	state, run := 0, 0
	for _, event := range events {
		e := melExponents[state]
		if event {
			code = append(code, 0)
			for k := int(e) - 1; k >= 0; k-- {
				code = append(code, uint8(run>>k&1))
			}
			state, run = max(state-1, 0), 0
		} else if run++; run == 1<<e {
			code = append(code, 1)
			state, run = min(state+1, 12), 0
		}
	}
	if run > 0 {
		code = append(code, 1)
	}
	var out []byte
	for len(code) > 0 {
		n := 8
		b := byte(0)
		if len(out) > 0 && out[len(out)-1] == 0xFF {
			n = 7
		}
		for k := range n {
			bit := uint8(1)
			if k < len(code) {
				bit = code[k]
			}
			b = b<<1 | bit
		}
		out, code = append(out, b), code[min(n, len(code)):]
	}
	return append(out, 0xF0) // MEL has only the upper half of the last byte
}

func TestMEL(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		events := make([]bool, r.IntN(3000))
		often := r.Float64() * r.Float64()
		for n := range events {
			events[n] = r.Float64() < often
		}
		m := newMELReader(encodeMEL(events))
		for n, want := range events {
			if got := m.event(); got != want {
				t.Fatalf("event %d of %d, one in %.1f of them true: got %v", n, len(events), 1/often, got)
			}
		}
		// The lower half of the last byte belongs to VLC, and only ones follow.
		for range 100 {
			if m.event() {
				t.Fatalf("a true event after %d events", len(events))
			}
		}
	}
	// after the end
	m := newMELReader(nil)
	for range 10000 {
		if m.event() {
			t.Fatal("a true event after the end")
		}
	}
}

// Refinement passes alone, by the words of the standard: a sample is visited if it is not
// significant and one of its neighbours is, and signs follow for each four columns (T.814 clause
// 7.4). What several passes do together is in testdata/htj2k.json.
func TestSignificancePropagation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 300 {
		width, height := 1+r.IntN(20), 1+r.IntN(20)
		causal := n%2 == 1
		d := blockDecoder{width: width, height: height, pitch: width + width%2, stride: width + 2}
		if causal {
			d.style = styleCausal
		}
		d.values = make([]int32, d.pitch*(height+height%2))
		d.flags = make([]uint32, d.stride*((height+3)/4+2))
		for y := range height {
			for x := range width {
				if r.IntN(6) == 0 {
					d.values[y*d.pitch+x] = int32(4 * (1 - 2*r.IntN(2)))
				}
			}
		}
		data := make([]byte, 1024)
		for k := range data {
			data[k] = byte(r.Uint32())
		}
		want := slices.Clone(d.values)
		source := &bitReader{data: data}
		for top := 0; top < height; top += 4 {
			for left := 0; left < width; left += 4 {
				var found []int
				for x := left; x < min(left+4, width); x++ {
					for y := top; y < min(top+4, height); y++ {
						neighbours := 0
						for _, by := range []int{y - 1, y, y + 1} {
							for _, bx := range []int{x - 1, x, x + 1} {
								if bx >= 0 && by >= 0 && bx < width && by < height && (!causal || by < top+4) &&
									want[by*d.pitch+bx] != 0 {
									neighbours++
								}
							}
						}
						if at := y*d.pitch + x; want[at] == 0 && neighbours > 0 && source.bit() == 1 {
							want[at] = 3
							found = append(found, at)
						}
					}
				}
				for _, at := range found {
					if source.bit() == 1 {
						want[at] = -3
					}
				}
			}
		}
		d.tellAll()
		got := &bitReader{data: data}
		d.significanceHT(got, 0)
		if !slices.Equal(d.values, want) || got.at != source.at {
			t.Fatalf("%dx%d, causal %v: got %d, want %d", width, height, causal, d.values, want)
		}
	}
}

// A clean-up pass whose lengths or numbers of bits are impossible is refused.
func TestDamagedCleanUpPasses(t *testing.T) {
	for name, data := range map[string][]byte{
		"one byte":                        {1},
		"more for MEL and VLC than bytes": {0, 0, 5, 0},
		"less for MEL and VLC than two":   {0, 0, 1, 0},
		"VLC ends early":                  {0, 0, 0, 2, 0},
	} {
		d := blockDecoder{width: 64, height: 64, pitch: 64, values: make([]int32, 64*64)}
		if d.cleanUpHT(data, 0, 12) {
			t.Errorf("%s: is accepted", name)
		}
	}
	// A code-block of noise of 8 bits. What is coded for a sample of -128 is 2*(128-1)+1: 8 bits.
	c := findCase(t, "HTJ2K, noise, 8 bits")
	d := &decoder{columns: c.Columns, rows: c.Rows}
	tiles, _, err := d.codeStream(c.Stream)
	if err != nil {
		t.Fatal(err)
	}
	resolutions, err := d.layout(d.image, tiles[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := tiles[0].packets(resolutions, 1<<20); err != nil {
		t.Fatal(err)
	}
	block := resolutions[0].precincts[0].parts[0].blocks[0]
	b := blockDecoder{width: c.Columns, height: c.Rows, pitch: c.Columns + 1,
		values: make([]int32, (c.Columns+1)*(c.Rows+1))}
	for most := range 12 {
		clear(b.values)
		if got := b.cleanUpHT(block.segments[0].data, 0, most); got != (most >= 8) {
			t.Errorf("%d bits a sample at most: accepted is %v", most, got)
		}
	}
}
