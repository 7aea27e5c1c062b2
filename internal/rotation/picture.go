package rotation

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
)

// picture shows the middle slice of the crop, turned in every way. What the network takes for
// another rotation has a red frame.
func (c *Config) picture(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
	shown, right, err := e.Classes(of, c.Crop)
	return pretext.Picture{
		Image: shown,
		Caption: fmt.Sprintf("The crop in the middle of case %s, turned in all %d ways, the first not at all: %d are "+
			"told right. A red frame marks the others.", of.Name(), c.Rotations, right),
	}, err
}
