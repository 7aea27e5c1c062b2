package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/photo"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

type photoBenchOptions struct {
	Repeat int    `yaml:"repeat" help:"times that all are decoded and resized" range:"[1,)"`
	Most   int    `yaml:"most" help:"photographs that are taken, spread evenly; 0: all"`
	Size   [2]int `yaml:"size" help:"width and height that they are resized to, in pixels" range:"[1,)"`
	Fit    string `yaml:"fit" help:"how photographs of another shape come to that" oneof:"warp crop"`
}

// photoBenchLine is what decoding and resizing took, a photograph, on one thread. Files are in
// memory before.
type photoBenchLine struct {
	Impl   string  `json:"impl"`
	Task   string  `json:"task"`
	Photos int     `json:"photos"`
	KiB    float64 `json:"kib"` // of a file, on average
	Pixels int     `json:"pixels"`
	Median float64 `json:"median_s"`
	Min    float64 `json:"min_s"`
}

func newBenchPhotos() *cobra.Command {
	o := &photoBenchOptions{Repeat: 5, Most: 100, Size: [2]int{255, 255}, Fit: string(photo.Warp)}
	return verb("photos PHOTOS", "Decoding photographs and resizing them, on one thread", "",
		"  voxsaw bench photos imagenette", cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			line, err := benchPhotos(cmd.Context(), args[0], *o)
			if err != nil {
				return err
			}
			if err := printJSONLine(cmd.OutOrStdout(), line); err != nil {
				return fmt.Errorf("writing the result: %w", err)
			}
			return nil
		})
}

func benchPhotos(ctx context.Context, root string, o photoBenchOptions) (line photoBenchLine, err error) {
	if err := (photos.Options{Size: o.Size, Fit: o.Fit}).Check(); err != nil || o.Repeat < 1 || o.Most < 0 {
		if err == nil {
			err = fmt.Errorf("--repeat must be at least 1 and --most at least 0")
		}
		return line, config.Mistaken(err)
	}
	set, err := photos.Find(root, 0, 0)
	if err != nil {
		return line, err
	}
	n := len(set.Photos)
	if o.Most > 0 {
		n = min(n, o.Most)
	}
	line = photoBenchLine{Impl: "voxsaw " + voxsaw.Version(), Task: "photos", Photos: n}
	files := make([][]byte, n)
	for k := range files {
		path := filepath.Join(root, filepath.FromSlash(set.Photos[k*len(set.Photos)/n].Path))
		if files[k], err = smallfile.Read(path, smallfile.Log); err != nil {
			return line, err
		}
		p, err := photo.Decode(files[k])
		if err != nil {
			return line, fmt.Errorf("%s: %w", path, err)
		}
		line.KiB += float64(len(files[k])) / 1024 / float64(n)
		line.Pixels += p.Width * p.Height / n
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	resizer, pixels := photo.NewResizer(o.Size[0], o.Size[1], photo.Fit(o.Fit)), make([]byte, 3*o.Size[0]*o.Size[1])
	var times []float64
	for range o.Repeat {
		if err := ctx.Err(); err != nil {
			return line, err
		}
		start := time.Now()
		for _, data := range files {
			p, err := photo.Decode(data)
			if err != nil {
				return line, err
			}
			resizer.Resize(pixels, p)
		}
		times = append(times, time.Since(start).Seconds()/float64(n))
	}
	slices.Sort(times)
	line.KiB, line.Median, line.Min = round(line.KiB, 1), round(times[len(times)/2], 6), round(times[0], 6)
	return line, nil
}
