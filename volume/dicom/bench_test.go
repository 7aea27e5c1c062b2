package dicom

import (
	"os"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/expect"
)

// Set VOXSAW_BENCH_FILE to time a folder of your own.
func BenchmarkRead(b *testing.B) {
	path := os.Getenv("VOXSAW_BENCH_FILE")
	if path == "" {
		path = expect.Data(b) + "/totalsegmentator/dicom_jpeg2000"
	}
	for b.Loop() {
		series, _, err := Scan(path)
		if err != nil {
			b.Fatal(err)
		}
		v, err := Read(series[0])
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(2 * v.Len()))
	}
}
