// Package gunzip decompresses gzip files on several cores, and faster than the usual libraries on
// one.
//
// Start at [Read]. The file is cut into chunks of equal size. While one core decodes a chunk,
// others guess where a block begins in the chunks behind and decode those too: what refers to the
// 32 KiB before a chunk becomes a marker, which is replaced when they are known. A guess that was
// wrong is thrown away, so that the result does not depend on guesses, nor on the number of cores;
// the idea is that of pugz (Kerbiriou and Chikhi 2019) and rapidgzip (Knespel and Brunst 2023).
// Files of several members (bgzip's, pigz's) are read in the same way.
//
// What it leaves out: reading from a stream, names and times in headers, and compression.
package gunzip

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// Want says what of a file's content is wanted.
type Want struct {
	// Bytes is how many of the first bytes are handed over. The content may have fewer.
	Bytes int64
	// Beyond is how many more are decompressed to see whether the checksum is right. Where there is
	// still more, nothing is said about what follows.
	Beyond int64
	// Sink gets the content in pieces, from several goroutines at once and in any order. A piece
	// may come twice, and is valid during the call only. Its error ends reading.
	Sink func(offset int64, piece []byte) error
}

// sinkError is an error of Sink: the file is not to blame.
type sinkError struct{ error }

// Read decompresses a file of size bytes on as many cores as Go may use. It returns how many bytes
// the content has, as far as it was looked at. Errors are [io.ErrUnexpectedEOF], [ErrHeader],
// [ErrChecksum] or others that name the damage, or those of file and sink.
func Read(file io.ReaderAt, size int64, want Want) (int64, error) {
	return read(file, size, want, sizes(size, want.Bytes))
}

// plan is how the work is cut.
type plan struct {
	workers int
	chunk   int64 // compressed bytes
	guess   int   // symbols that are decoded ahead, at most
	piece   int   // bytes that are handed over at once
}

// sizes returns a plan for a file whose content has about this many bytes.
func sizes(size, content int64) plan {
	p := plan{workers: min(runtime.GOMAXPROCS(0), 8), piece: int(min(256<<10, content))}
	// Guesses of all workers together take a fifth of the content, and up to 6 MB each.
	p.guess = int(min(max(content/10/int64(p.workers), 256<<10), 3<<20))
	// As much as a guess can hold, with some room, and not so little that looking for a block takes
	// longer than decoding it.
	ratio := float64(content) / float64(max(size, 1))
	p.chunk = int64(float64(p.guess) * 0.7 / max(ratio, 1))
	p.chunk = min(max(p.chunk, 64<<10), 1<<20)
	if size < 2*p.chunk || content < 4<<20 {
		p.workers = 1
	}
	return p
}

func read(file io.ReaderAt, size int64, want Want, p plan) (int64, error) {
	n, err := newReader(file, size, want, p).run()
	if failed := (sinkError{}); errors.As(err, &failed) {
		return n, failed.error
	}
	if err != nil && p.workers > 1 {
		// The file is damaged, or this program is wrong where it guesses. One core does not guess.
		p.workers = 1
		return read(file, size, want, p)
	}
	return n, err
}

// reader is one run over a file.
type reader struct {
	Want
	plan
	file    io.ReaderAt
	size    int64
	turns   []chan turn // one for each chunk: where it begins, from whoever finished the one before
	results []result
	next    atomic.Int64 // chunk that nobody has taken
	stop    atomic.Bool  // a sink has failed
}

// turn is what a chunk needs to know of those before.
type turn struct {
	place
	before []byte // up to 32 KiB of the member that it begins in
	out    int64  // bytes of content before
	over   bool   // there is no more to do
}

// result is what remains of a chunk: lengths and checksums of the pieces of members in it.
type result struct {
	parts   []part
	err     error
	guessed bool // decoded before its turn
}

type part struct {
	crc   uint32
	bytes int64
	end   *end // of the member, if it ends here
}

func newReader(file io.ReaderAt, size int64, want Want, p plan) *reader {
	if p.workers == 1 {
		p.chunk = size
	}
	chunks := max(int((size+p.chunk-1)/max(p.chunk, 1)), 1)
	r := &reader{Want: want, plan: p, file: file, size: size, turns: make([]chan turn, chunks+1),
		results: make([]result, chunks)}
	for n := range r.turns {
		r.turns[n] = make(chan turn, 1)
	}
	r.turns[0] <- turn{place: place{0, true}}
	return r
}

// run does the work and looks at the checksums.
func (r *reader) run() (int64, error) {
	work := func() {
		w := newWorker(r)
		defer w.release()
		for k := r.next.Add(1) - 1; k < int64(len(r.results)); k = r.next.Add(1) - 1 {
			w.chunk(int(k))
		}
	}
	var wg sync.WaitGroup
	for range min(r.workers, len(r.results)) - 1 {
		wg.Go(work)
	}
	work() // here, so that one worker need not wait for another thread
	wg.Wait()
	last := <-r.turns[len(r.results)]
	var all, member int64
	var sum uint32
	for _, result := range r.results {
		for _, p := range result.parts {
			sum = combine(sum, p.crc, p.bytes)
			all += p.bytes
			member += p.bytes
			if p.end == nil {
				continue
			}
			if p.end.crc != sum || p.end.size != uint32(member) {
				return all, ErrChecksum
			}
			sum, member = 0, 0
		}
		if result.err != nil {
			return all, result.err
		}
	}
	return last.out, nil
}
