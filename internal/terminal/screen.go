package terminal

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// A Screen is what a person reads, standard output or standard error, wherever it leads. Characters
// that cannot be seen reach it as escapes, whoever writes: see [safetext.Lines]. What this package
// draws itself (bars, emphasis) goes past it.
type Screen struct {
	to    io.Writer
	mutex sync.Mutex
	begun []byte // of a character that the next call goes on with
}

// NewScreen makes a screen of a writer.
func NewScreen(to io.Writer) *Screen { return &Screen{to: to} }

// Write implements [io.Writer]. While one goroutine waits for whoever reads, others may write: a
// signal must be answered though a pipe is full.
func (s *Screen) Write(p []byte) (int, error) {
	if _, err := io.WriteString(s.to, safetext.Lines(s.whole(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// whole takes a text, and gives what has come so far but for the beginning of a character.
func (s *Screen) whole(p []byte) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	text := append(s.begun, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	s.begun = append([]byte{}, text[whole:]...)
	return string(text[:whole])
}

// Close writes the beginning of a character that did not come to its end.
func (s *Screen) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, err := io.WriteString(s.to, safetext.Text(string(s.begun)))
	s.begun = nil
	return err
}

// past is the writer behind a screen, for what shows no text that it has not cleaned.
func past(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.to
	}
	return w
}

// file is the file that a writer writes to in the end.
func file(w io.Writer) (*os.File, bool) {
	f, ok := past(w).(*os.File)
	return f, ok
}
