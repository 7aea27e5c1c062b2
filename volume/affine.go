package volume

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Scaling returns the affine of an RAS grid with the given spacing (mm) and voxel (0, 0, 0) at the
// origin.
func Scaling(spacing [3]float64) Affine {
	return Affine{{spacing[0], 0, 0, 0}, {0, spacing[1], 0, 0}, {0, 0, spacing[2], 0}, {0, 0, 0, 1}}
}

// Apply returns a * (p, 1): the world coordinates (mm) of the voxel index p, which may be
// fractional.
func (a Affine) Apply(p [3]float64) [3]float64 {
	var q [3]float64
	for r := range q {
		q[r] = a[r][0]*p[0] + a[r][1]*p[1] + a[r][2]*p[2] + a[r][3]
	}
	return q
}

// Mul returns a * b: first b, then a.
func (a Affine) Mul(b Affine) Affine {
	var c Affine
	for r := range 4 {
		for s := range 4 {
			for t := range 4 {
				c[r][s] += a[r][t] * b[t][s]
			}
		}
	}
	return c
}

// Det returns the determinant of the 3x3 part: the volume of a voxel in mm^3, negative for a
// left-handed grid.
func (a Affine) Det() float64 {
	return a[0][0]*(a[1][1]*a[2][2]-a[1][2]*a[2][1]) -
		a[0][1]*(a[1][0]*a[2][2]-a[1][2]*a[2][0]) +
		a[0][2]*(a[1][0]*a[2][1]-a[1][1]*a[2][0])
}

// Inverse returns the affine that takes world coordinates back to voxel indices. It fails where a
// is singular or not finite.
func (a Affine) Inverse() (Affine, error) {
	if err := a.Check(); err != nil {
		return Affine{}, err
	}
	d := a.Det()
	var b Affine
	for r := range 3 {
		for s := range 3 {
			r1, r2, s1, s2 := (r+1)%3, (r+2)%3, (s+1)%3, (s+2)%3
			b[s][r] = (a[r1][s1]*a[r2][s2] - a[r1][s2]*a[r2][s1]) / d
		}
	}
	for r := range 3 {
		b[r][3] = -(b[r][0]*a[0][3] + b[r][1]*a[1][3] + b[r][2]*a[2][3])
	}
	b[3][3] = 1
	return b, nil
}

// Check says whether a is what an affine must be: finite, not singular, (0, 0, 0, 1) in the last
// row.
func (a Affine) Check() error {
	for r := range a {
		for s := range a[r] {
			if !numbers.Finite(a[r][s]) {
				return errors.New("affine holds values that are not finite")
			}
		}
	}
	if a[3] != [4]float64{0, 0, 0, 1} {
		return fmt.Errorf("affine's last row is %v, not 0 0 0 1", numbers.List(a[3][:]))
	}
	sp := a.Spacing()
	// Relative to the spacing, so that grids in micrometres and in metres are judged alike: 1e-6 of
	// the volume that a box of these sides has.
	if size := sp[0] * sp[1] * sp[2]; !(math.Abs(a.Det()) > 1e-6*size) || math.IsInf(size, 0) {
		return errors.New("affine is singular")
	}
	return nil
}

// Spacing returns the distance (mm) between neighbouring voxels along i, j and k: the lengths of
// the columns.
func (a Affine) Spacing() [3]float64 {
	var s [3]float64
	for c := range s {
		s[c] = math.Sqrt(a[0][c]*a[0][c] + a[1][c]*a[1][c] + a[2][c]*a[2][c])
	}
	return s
}

// Shear returns how far the axes are from being perpendicular: the greatest |cosine| between two of
// them, 0 for a box.
func (a Affine) Shear() float64 {
	s := a.Spacing()
	var worst float64
	for c := range 3 {
		d := (c + 1) % 3
		dot := a[0][c]*a[0][d] + a[1][c]*a[1][d] + a[2][c]*a[2][d]
		worst = max(worst, math.Abs(dot)/(s[c]*s[d]))
	}
	return worst
}

// Axcodes returns the three letters that say where i, j and k grow to, such as "RAS" or "LPS", as
// nibabel.aff2axcodes does since its version 5.4: the world axis nearest to each column of the
// orthogonal matrix that is nearest to the affine. A singular affine has "???".
func (a Affine) Axcodes() string {
	axis, sign, err := a.orientation()
	if err != nil {
		return "???"
	}
	var codes [3]byte
	for c := range 3 {
		codes[c] = "LRPAIS"[2*axis[c]+max(sign[c], 0)]
	}
	return string(codes[:])
}

// rotation returns the orthogonal matrix (a rotation, or one and a reflection) that is nearest to
// the directions of a's axes.
func (a Affine) rotation() (Affine, error) {
	if err := a.Check(); err != nil {
		return Affine{}, err
	}
	// The orthogonal factor of the polar decomposition, by Newton's iteration R <- (R + R^-T) / 2
	// (Higham 1986).
	s := a.Spacing()
	r := Affine{3: {0, 0, 0, 1}}
	for c := range 3 {
		for w := range 3 {
			r[w][c] = a[w][c] / s[c]
		}
	}
	for range 100 {
		inv, err := r.Inverse()
		if err != nil {
			return Affine{}, err
		}
		var change float64
		for w := range 3 {
			for c := range 3 {
				next := (r[w][c] + inv[c][w]) / 2
				change = max(change, math.Abs(next-r[w][c]))
				r[w][c] = next
			}
		}
		if change < 1e-14 {
			break
		}
	}
	return r, nil
}

// orientation returns, for each voxel axis, the world axis that it follows and the direction (1 or
// -1). The axis that follows one most clearly has the first choice, so that the order of the axes
// in the file decides nothing.
func (a Affine) orientation() (axis, sign [3]int, err error) {
	r, err := a.rotation()
	if err != nil {
		return axis, sign, err
	}
	// A tie (45 degrees) goes to the first axis. The margin keeps it from being decided by the last
	// bit.
	const margin = 1e-12
	var clearest [3]float64 // of each column
	for c := range 3 {
		clearest[c] = max(math.Abs(r[0][c]), math.Abs(r[1][c]), math.Abs(r[2][c]))
	}
	order := []int{0, 1, 2}
	slices.SortStableFunc(order, func(c, d int) int {
		if math.Abs(clearest[c]-clearest[d]) <= margin {
			return 0
		}
		return cmp.Compare(clearest[d], clearest[c])
	})
	var used [3]bool
	for _, c := range order {
		best := -1
		for w := range 3 {
			if !used[w] && (best < 0 || math.Abs(r[w][c]) > math.Abs(r[best][c])+margin) {
				best = w
			}
		}
		used[best] = true
		axis[c], sign[c] = best, 1
		if r[best][c] < 0 {
			sign[c] = -1
		}
	}
	return axis, sign, nil
}

// parseAxcodes turns "LPS" into the world axis and direction of each voxel axis.
func parseAxcodes(codes string) (axis, sign [3]int, err error) {
	var used [3]bool
	bad := fmt.Errorf("axis codes %q: want three letters, one of each of L/R, P/A and I/S", codes)
	if len(codes) != 3 {
		return axis, sign, bad
	}
	for c := range 3 {
		n := strings.IndexByte("LRPAIS", codes[c])
		if n < 0 || used[n/2] {
			return axis, sign, bad
		}
		used[n/2] = true
		axis[c], sign[c] = n/2, 2*(n%2)-1
	}
	return axis, sign, nil
}
