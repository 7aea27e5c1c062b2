package gunzip

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"sync"
	"unsafe"
)

// worker decodes chunks, one at a time.
type worker struct {
	*reader
	decoder
	out   []byte   // window, then a piece
	ahead []uint16 // window of markers, then symbols that were decoded before their turn
	table [window]byte
}

// idle workers have memory that serves again: many files are so small that making it, and clearing
// it away, would take longer than decoding.
var idle = sync.Pool{New: func() any { return &worker{decoder: decoder{input: &input{}}} }}

func newWorker(r *reader) *worker {
	w := idle.Get().(*worker)
	w.reader = r
	w.input.reset(r.file, r.size)
	w.kind, w.final, w.stored, w.member, w.low, w.ends = noBlock, false, 0, false, 0, nil
	if need := window + r.piece + slack; cap(w.out) < need {
		w.out = make([]byte, need)
	} else {
		w.out = w.out[:need]
	}
	return w
}

// release gives the worker's memory back.
func (w *worker) release() {
	w.reader, w.ends = nil, nil
	w.input.reset(nil, 0)
	idle.Put(w)
}

// until is the bit where a chunk ends: at the first place there or behind.
func (w *worker) until(k int) int64 {
	if k == len(w.results)-1 {
		return math.MaxInt64
	}
	return int64(k+1) * w.plan.chunk * 8
}

// guess is a chunk that was decoded before its turn.
type guess struct {
	from, to place
	found    bool // to
	over     bool // the file ends with it
	symbols  int  // in ahead, the window included
}

// chunk decodes chunk k, at once if it is its turn, else ahead and then when it is.
func (w *worker) chunk(k int) {
	var t turn
	var g *guess
	select {
	case t = <-w.turns[k]:
	default:
		g = w.guess(k)
		t = <-w.turns[k]
	}
	w.finish(k, t, g)
}

// finish decodes chunk k when it is its turn, with the help of a guess if there is one.
func (w *worker) finish(k int, t turn, g *guess) {
	switch {
	case w.stop.Load():
		t.over = true
		w.turns[k+1] <- t
	case t.over || t.bit >= w.until(k):
		w.turns[k+1] <- t
	case g != nil && g.from == t.place && w.reachable(g, t):
		w.accept(k, t, g)
	default:
		w.ends, w.kind, w.final, w.member = nil, noBlock, false, t.member
		low := window - len(t.before)
		copy(w.out[low:], t.before)
		w.low = low
		if err := w.seek(t.bit); err != nil {
			w.fail(k, t, err)
			return
		}
		w.direct(k, t)
	}
}

// fail ends the work with an error of chunk k.
func (w *worker) fail(k int, t turn, err error) {
	w.results[k].err = err
	t.over = true
	w.turns[k+1] <- t
}

// direct decodes chunk k, or the rest of it, with all known that is before. The decoder stands
// where it goes on, and out holds the window.
func (w *worker) direct(k int, t turn) {
	for {
		stop, found, over, err := advance(&w.decoder, w.out, window, w.until(k))
		if err != nil {
			if n := len(w.ends); n > 0 { // the checksums of whole members before it come first
				err = cmp.Or(w.deliver(k, t.out, w.out[window:w.ends[n-1].at], window), err)
			}
			w.fail(k, t, err)
			return
		}
		if err := w.deliver(k, t.out, w.out[window:stop], window); err != nil {
			w.fail(k, t, err)
			return
		}
		t.out += int64(stop - window)
		if found || over || t.out >= w.Bytes+w.Beyond {
			t.place = place{w.bit(), w.member}
			t.before = append([]byte(nil), w.out[max(w.low, stop-window):stop]...)
			t.over = !found || t.out >= w.Bytes+w.Beyond
			w.turns[k+1] <- t
			return
		}
		copy(w.out, w.out[stop-window:stop])
		w.low = max(0, w.low-(stop-window))
	}
}

// deliver hands a piece over and adds it to the checksums. The piece began at place first of the
// output that ends counts in.
func (w *worker) deliver(k int, offset int64, piece []byte, first int) error {
	parts := &w.results[k].parts
	from := 0
	for len(w.ends) > 0 && w.ends[0].at <= first+len(piece) {
		e := w.ends[0]
		w.ends = w.ends[1:]
		*parts = append(*parts, part{crc32.ChecksumIEEE(piece[from : e.at-first]), int64(e.at - first - from), &e})
		from = e.at - first
	}
	*parts = append(*parts, part{crc32.ChecksumIEEE(piece[from:]), int64(len(piece) - from), nil})
	if n := w.Bytes - offset; n <= 0 {
		return nil
	} else if int64(len(piece)) > n {
		piece = piece[:n]
	}
	if len(piece) == 0 {
		return nil
	}
	if err := w.Sink(offset, piece); err != nil {
		return sinkError{err}
	}
	return nil
}

// guess decodes chunk k from the first place that can be found in it, or returns nil.
func (w *worker) guess(k int) *guess {
	if need := window + w.plan.guess + slack; cap(w.ahead) < need {
		w.ahead = make([]uint16, need)
		for n := range window {
			w.ahead[n] = marker | uint16(n)
		}
	} else {
		w.ahead = w.ahead[:need]
	}
	from, until := int64(k)*w.plan.chunk*8, min(w.until(k), w.reader.size*8)
	for {
		p, ok := w.find(from, until)
		if !ok {
			return nil
		}
		stop, found, over, err := advance(&w.decoder, w.ahead, window, w.until(k))
		if err == nil {
			return &guess{p, place{w.bit(), w.member}, found, over, stop}
		}
		if stop > window+window {
			return nil // most likely a good place in a damaged file
		}
		from = p.bit + 1
	}
}

// reachable says whether a guess refers to nothing but what is there: in the first 32 KiB of a
// member there is less than a whole window.
func (w *worker) reachable(g *guess, t turn) bool {
	if len(t.before) == window || g.from.member {
		return true
	}
	first := uint16(marker + window - len(t.before))
	for _, s := range w.ahead[window:g.symbols] {
		if s >= marker && s < first {
			return false
		}
	}
	return true
}

// accept takes a guess that turned out right.
func (w *worker) accept(k int, t turn, g *guess) {
	w.results[k].guessed = true
	copy(w.table[window-len(t.before):], t.before)
	low := w.low
	if low == 0 { // still in the member that the chunk began in
		low = window - len(t.before)
	}
	next := turn{place: g.to, out: t.out + int64(g.symbols-window), before: make([]byte, min(window, g.symbols-low))}
	resolve(next.before, w.ahead[g.symbols-len(next.before):g.symbols], &w.table)
	next.over = g.over || next.out >= w.Bytes+w.Beyond
	finished := g.found || next.over
	if finished {
		w.turns[k+1] <- next // before anything else: somebody may wait for it
	}
	for from := window; from < g.symbols; from += w.piece {
		piece := w.out[:min(w.piece, g.symbols-from)]
		resolve(piece, w.ahead[from:from+len(piece)], &w.table)
		if err := w.deliver(k, t.out+int64(from-window), piece, from); err != nil {
			w.stop.Store(true)
			if finished {
				w.results[k].err = err
			} else {
				w.fail(k, next, err)
			}
			return
		}
	}
	if finished {
		return
	}
	w.low = window - len(next.before)
	copy(w.out[w.low:], next.before)
	w.direct(k, next)
}

// resolve replaces markers by what they stand for. Dst and src are equally long.
func resolve(dst []byte, src []uint16, table *[window]byte) {
	n := 0
	for ; n+8 <= len(src) && n+8 <= len(dst); n += 8 {
		at := unsafe.Pointer(&src[n]) // eight symbols, all of them in src
		x, y := *(*uint64)(at), *(*uint64)(unsafe.Add(at, 8))
		if (x|y)&0x8000_8000_8000_8000 == 0 {
			x = (x | x>>8) & 0x0000_ffff_0000_ffff
			y = (y | y>>8) & 0x0000_ffff_0000_ffff
			binary.LittleEndian.PutUint64(dst[n:], (x|x>>16)&0xffff_ffff|(y|y>>16)<<32)
			continue
		}
		for i := n; i < n+8; i++ {
			dst[i] = resolved(src[i], table)
		}
	}
	for ; n < len(src); n++ {
		dst[n] = resolved(src[n], table)
	}
}

func resolved(s uint16, table *[window]byte) byte {
	if s < marker {
		return byte(s)
	}
	return table[s-marker]
}
