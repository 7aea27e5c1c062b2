package main

import (
	. "github.com/voxsaw/voxsaw/internal/device/cpu/asm/vector"

	"github.com/mmcloughlin/avo/reg"
)

// peakSums is how many blocks peak multiplies in a turn: enough of them independent that no
// multiply-add waits for another, and two registers are left for the factors.
func peakSums(s isa) int {
	if s.bytes == 64 {
		return 24
	}
	return 6
}

// peak emits multiply-adds whose operands are registers: what a core does at most.
func peak(s isa) string {
	name := begin(s, "peak", "func(times int)", "%s multiplies registers, so many times.")
	times := load("times")
	x, y := s.register(), s.register()
	s.zero(x)
	s.zero(y)
	sums := make([]reg.VecVirtual, peakSums(s)*s.parts)
	for i := range sums {
		sums[i] = s.register()
		s.zero(sums[i])
	}
	loop("turn", times, func() {
		for _, sum := range sums {
			VFMADD231PS(x, y, sum)
		}
	})
	end()
	return name
}
