package sliding

// addParts adds the windows of a batch to the sums, and their mirror images, which are turned back:
// a few planes of a window at a time, so that there are never the probabilities of a whole one.
func (s *Inferer) addParts(c crops, sums *slab) error {
	sets := mirrorings(s.Mirror)
	share := 1 / float32(len(sets))
	for _, axes := range sets {
		voxels := c.voxels
		if len(axes) > 0 {
			s.mirrored.voxels = append(s.mirrored.voxels[:0], c.voxels...)
			voxels = s.mirrored.voxels
			for _, axis := range axes {
				Mirror(voxels, s.Size, axis)
			}
		}
		features, err := s.parts.Run("image", voxels)
		if err != nil {
			return err
		}
		one := len(features) / s.Batch
		for n, origin := range c.origins {
			if err := s.parts.Each(features[n*one:][:one], func(plane int, outputs map[string][]float32) {
				s.addPart(sums, origin, plane, axes, share, outputs)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPart adds some planes along k of what the network says of a window, whose image was mirrored
// along axes, as a share of the window.
func (s *Inferer) addPart(sums *slab, origin [3]int, plane int, axes []int, share float32,
	outputs map[string][]float32) {
	size := [3]int{s.Size[0], s.Size[1], s.parts.Planes}
	for _, axis := range axes {
		if axis == 2 {
			plane = s.Size[2] - plane - size[2]
		}
	}
	weights := s.weights
	weights[2] = make([]float32, size[2])
	for k := range weights[2] {
		weights[2][k] = share * s.weights[2][plane+k]
	}
	origin[2] += plane
	for name, first := range map[string]int{"probability": 0, "logits": s.classes} {
		values := outputs[name]
		if first+s.classes > sums.channels || values == nil { // not wanted
			continue
		}
		for _, axis := range axes {
			Mirror(values, size, axis)
		}
		sums.add(values, first, origin, size, &weights)
	}
}
