// Package ballot decides which label a voxel gets that covers parts of several others.
//
// Start at [Ballot]: the label with the largest share wins. Who wins a tie depends on the labels
// alone, never on the order in which voxels are stored: so a scan gets the same labels however its
// axes lie, and mirrored labels are the mirror image.
package ballot

// tie is the difference up to which shares of a voxel are equal: headers round.
const tie = 1e-4

// A Ballot is the shares of labels in one voxel.
type Ballot struct {
	Labels []uint16
	Shares []float64 // of each, as they come
	sum    float64
}

// Clear forgets all shares.
func (b *Ballot) Clear() { b.Labels, b.Shares, b.sum = b.Labels[:0], b.Shares[:0], 0 }

// Add adds to a label's share.
func (b *Ballot) Add(label uint16, share float64) {
	b.sum += share
	for n, known := range b.Labels {
		if known == label {
			b.Shares[n] += share
			return
		}
	}
	b.Labels, b.Shares = append(b.Labels, label), append(b.Shares, share)
}

// Winner is the label with the largest share; 0 where there is none. Of labels with equal shares
// it is the one that comes first in the order.
func (b *Ballot) Winner(o Order) uint16 {
	if len(b.Labels) <= 1 {
		if len(b.Labels) == 0 {
			return 0
		}
		return b.Labels[0]
	}
	most := 0.0
	for _, share := range b.Shares {
		most = max(most, share)
	}
	least := most - tie*b.sum
	won, winner := false, uint16(0)
	for n, label := range b.Labels {
		if b.Shares[n] >= least && (!won || o.Before(label, winner)) {
			won, winner = true, label
		}
	}
	return winner
}

// An Order says which of two labels wins a tie, by how many voxels each has: the rarer one, so that
// thin structures stay, and background never. Of labels that are equally frequent, it is the one
// with the lower number.
type Order []int

// Rarest is the order of labels by their voxels.
func Rarest(labels []uint16) Order {
	o := make(Order, 1<<16)
	for _, label := range labels {
		o[label]++
	}
	return o
}

// Before reports whether a comes before b.
func (o Order) Before(a, b uint16) bool {
	switch {
	case a == 0 || b == 0:
		return b == 0 && a != 0
	case o[a] != o[b]:
		return o[a] < o[b]
	}
	return a < b
}
