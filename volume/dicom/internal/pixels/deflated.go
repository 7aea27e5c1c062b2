package pixels

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
)

// inflate decodes a deflated frame (PS3.5 A.4.13), into at most so many bytes. Where it ends early,
// what there is comes back without an error.
func inflate(data []byte, most int) ([]byte, error) {
	z := flate.NewReader(bytes.NewReader(data))
	defer z.Close()
	out, err := io.ReadAll(io.LimitReader(z, int64(most)))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("damaged deflated frame: %w", err)
	}
	return out, nil
}
