package puzzle3d

import "testing"

// BenchmarkPuzzle makes one puzzle of the paper's size: cut, varied, ordered.
func BenchmarkPuzzle(b *testing.B) {
	c := DefaultConfig()
	c.Network.Channels, c.Batch = 16, 1
	c = resolved(b, c)
	game, err := c.game(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	s := sampler{config: c, game: game, n: 1, cases: opened(b, phantoms(b, 1, [3]int{140, 140, 130}), "case00")}
	for step := 0; b.Loop(); step++ {
		if _, err := s.batch(b.Context(), step); err != nil {
			b.Fatal(err)
		}
	}
}
