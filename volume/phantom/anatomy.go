package phantom

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Coordinates run from -1 to 1 over the scan: x to the patient's right, y to the front, z to the
// head.
type point [3]float64

// tissue is what a voxel belongs to; shapes say which they may be drawn over.
type tissue uint8

const (
	air  tissue = 1 << iota // around the patient
	wall                    // skin, fat, muscle, bone
	lung
	cavity // fat between the organs
	organ
	anywhere tissue = 0
)

// A shape is drawn inside its box, over certain tissues.
type shape struct {
	low, high point
	over      tissue
	// inside returns the HU, label and tissue at a point, tissue 0 outside the shape.
	inside func(x, y, z float64) (hu float32, label uint16, what tissue)
}

type anatomy struct {
	warp   [3]wave
	shapes []shape
}

// bend is the farthest that the warp moves a point.
const bend = 0.06

// A wave is a smooth displacement along one axis that depends on the other two.
type wave struct{ a, b, p, q, r, s float64 }

func (w wave) at(u, v float64) float64 { return w.a*triangle(w.p*u+w.q) + w.b*triangle(w.r*v+w.s) }

// triangle is close to the sine of pi*t, at a tenth of its cost: two parabolas.
func triangle(t float64) float64 {
	t -= 2 * math.Floor(t/2) // [0, 2)
	if t < 1 {
		return 4 * t * (1 - t)
	}
	t--
	return -4 * t * (1 - t)
}

// patient draws one from the generator.
func patient(r *rand.Rand) *anatomy {
	around := func(middle, spread float64) float64 { return middle + spread*(2*r.Float64()-1) }
	moved := func(p point, spread float64) point {
		return point{around(p[0], spread), around(p[1], spread), around(p[2], spread)}
	}
	p := &anatomy{}
	for axis := range p.warp {
		p.warp[axis] = wave{a: around(0, bend/2), b: around(0, bend/2), p: around(0.8, 0.3), q: 2 * r.Float64(),
			r: around(0.8, 0.3), s: 2 * r.Float64()}
	}
	// 0: hardly any contrast medium in the blood, 1: portal venous phase at its best
	contrast := r.Float64()
	p.shapes = append(p.shapes, table(), trunk(r, around))
	p.shapes = append(p.shapes, spine(around)...)
	p.shapes = append(p.shapes, bowel(r, around)...)

	soft := float32(around(95, 12)) // HU of the pancreas
	p.shapes = append(p.shapes, stomach(around))
	p.shapes = append(p.shapes, liver(r, around, float32(around(105, 15)), float32(40+60*contrast))...)
	p.shapes = append(p.shapes,
		ellipsoid(moved(point{-0.53, -0.2, 0.27}, 0.03), point{around(0.16, 0.03), around(0.23, 0.03),
			around(0.25, 0.04)}, around(-0.5, 0.2), Spleen, float32(around(115, 15))),
		kidney(moved(point{0.34, -0.31, -0.28}, 0.03), around, 1, RightKidney, float32(120+70*contrast)),
		kidney(moved(point{-0.34, -0.31, -0.2}, 0.03), around, -1, LeftKidney, float32(120+70*contrast)))

	// Vessels in front of the spine, and the splenic and mesenteric veins that touch the pancreas
	// and look like it.
	blood := float32(70 + 110*contrast)
	p.shapes = append(p.shapes,
		tube([]point{{-0.05, -0.2, -1.1}, {around(-0.06, 0.02), -0.19, 0}, {-0.03, -0.2, 1.1}},
			[]float64{around(0.068, 0.01)}, cavity|organ, 0, Aorta, blood)...)
	p.shapes = append(p.shapes, tube([]point{{0.1, -0.19, -1.1}, {around(0.11, 0.02), -0.17, 0}, {0.13, -0.1, 0.6}},
		[]float64{around(0.065, 0.01)}, cavity|organ, 0, 0, blood-20)...)
	path := []point{
		moved(point{0.2, 0.02, -0.3}, 0.03), moved(point{0.19, 0.08, -0.14}, 0.03),
		moved(point{0.08, 0.15, -0.02}, 0.03),
		moved(point{-0.1, 0.13, 0.06}, 0.04), moved(point{-0.26, 0.0, 0.13}, 0.04),
		moved(point{-0.42, -0.14, 0.22}, 0.04),
	}
	behind := make([]point, len(path)-1)
	for n := range behind {
		q := path[n+1]
		behind[n] = point{q[0], q[1] - 0.09, q[2] - 0.02}
	}
	p.shapes = append(p.shapes, tube(behind, []float64{0.035}, cavity|organ, 0, 0, blood-15)...)
	p.shapes = append(p.shapes, tube([]point{{0.05, 0.08, -0.6}, {0.06, 0.07, -0.3}, {0.06, 0.05, 0}}, []float64{0.045},
		cavity|organ, 0, 0, blood-15)...)
	// The duodenum wraps the head of the pancreas.
	p.shapes = append(p.shapes, tube([]point{{0.14, 0.24, 0.02}, {0.31, 0.14, -0.06}, {0.32, 0.04, -0.3},
		{0.16, -0.06, -0.4}, {-0.1, -0.04, -0.38}},
		[]float64{around(0.085, 0.015)}, cavity|organ, 0.3, 0, float32(around(75, 30)))...)
	thick := around(1, 0.2)
	p.shapes = append(p.shapes, tube(path, []float64{0.1 * thick, 0.1 * thick, 0.065 * thick, 0.075 * thick,
		0.075 * thick, 0.06 * thick}, cavity|organ, 0.25, Pancreas, soft)...)
	return p
}

// trunk is the body: skin, fat, muscle, ribs, and what it encloses: lungs above the diaphragm, fat
// below.
func trunk(r *rand.Rand, around func(middle, spread float64) float64) shape {
	wide, deep := around(0.88, 0.05), around(0.8, 0.05)
	fat := around(0.11, 0.06)    // thickness of the fat under the skin, as a share of the radius
	muscle := around(0.09, 0.02) // and of the muscle within
	dome := around(0.62, 0.08)   // top of the diaphragm
	flesh, grease, rib := float32(around(55, 8)), float32(around(-105, 8)), float32(around(350, 80))
	ribs, phase := around(4.2, 0.4), 2*r.Float64()
	return shape{
		low: point{-1, -1, -1}, high: point{1, 1, 1}, over: anywhere,
		inside: func(x, y, z float64) (float32, uint16, tissue) {
			waist := 1 - 0.05*triangle(0.5*z+0.5)
			a, b := x/(wide*waist), y/deep
			// a little rounder than an ellipse is at the flanks
			radius := math.Sqrt(a*a + b*b + 0.35*a*a*b*b)
			switch {
			case radius > 1:
				if radius > 1.6 || y > -deep+0.04 { // the table shows below the patient
					return -1000, 0, air
				}
				return 0, 0, 0
			case radius > 0.975:
				return 20, 0, wall // skin
			case radius > 1-fat:
				return grease, 0, wall
			}
			inner := 1 - fat - muscle
			if b < -0.25 {
				inner -= 0.08 * (-0.25 - b) / 0.75 // the muscles of the back
			}
			chest := z - 0.1 + 0.5*y // ribs reach lower at the back
			switch {
			case radius > inner && chest > -0.5 && radius < inner+0.6*muscle && triangle(ribs*(z+0.8*b)+phase) > 0.4:
				return rib, 0, wall
			case radius > inner:
				return flesh, 0, wall
			}
			// Two domes: the right one, over the liver, stands higher.
			side := math.Abs(x) - 0.36
			diaphragm := dome - 0.9*side*side - 0.55*(y-0.05)*(y-0.05)
			if x < 0 {
				diaphragm -= 0.06
			}
			if z > diaphragm {
				if middle := x + 0.12; z > diaphragm+0.04 && middle*middle+(y-0.1)*(y-0.1) < 0.09 {
					return 60, 0, wall // heart and mediastinum
				}
				return -850, 0, lung
			}
			return grease + 5, 0, cavity
		},
	}
}

// table is what the patient lies on.
func table() shape {
	return shape{
		low: point{-1, -1, -1}, high: point{1, 1, 1}, over: anywhere,
		inside: func(x, y, _ float64) (float32, uint16, tissue) {
			if sag := y + 0.97 - 0.1*x*x; math.Abs(sag) < 0.03 && math.Abs(x) < 0.75 {
				return -70, 0, air
			}
			return -1000, 0, air
		},
	}
}

// spine is a column of vertebrae and discs, the canal behind it, and the processes.
func spine(around func(middle, spread float64) float64) []shape {
	back, size := around(-0.4, 0.03), around(0.135, 0.015)
	count, phase := around(3.4, 0.3), around(0, 1)
	bone := float32(around(230, 50))
	return []shape{{
		low: point{-0.3, -0.75, -1}, high: point{0.3, -0.2, 1}, over: cavity | wall | lung | organ,
		inside: func(x, y, z float64) (float32, uint16, tissue) {
			level := triangle(count*z + phase)
			body := (x*x + (y-back)*(y-back)*1.5) / (size * size)
			canal := (x*x + (y-back+size*1.15)*(y-back+size*1.15)) / (0.05 * 0.05)
			switch {
			case canal < 1:
				return 35, 0, wall
			case body < 1 && math.Abs(level) < 0.35:
				return 85, 0, wall // disc
			case body < 0.7:
				return bone, Vertebrae, wall
			case body < 1:
				return bone + 300, Vertebrae, wall // the cortex is denser
			case canal < 2.6:
				return bone + 200, Vertebrae, wall
			case math.Abs(x) < 0.035 && y < back-size && y > back-2.4*size && level > 0.2:
				return bone + 150, Vertebrae, wall // spinous process
			case y < back-0.6*size && y > back-1.2*size && math.Abs(x) < 0.26 && level > 0.7:
				return bone + 150, Vertebrae, wall // transverse process
			}
			return 0, 0, 0
		},
	}}
}

// liver fills the right upper abdomen, tapers to the left, and has vessels.
func liver(r *rand.Rand, around func(middle, spread float64) float64, hu, vessel float32) []shape {
	right := point{around(0.42, 0.03), around(0.05, 0.04), around(0.24, 0.05)}
	radii := point{around(0.36, 0.03), around(0.46, 0.04), around(0.36, 0.05)}
	left := point{around(0.02, 0.06), around(0.32, 0.03), around(0.34, 0.04)}
	shapes := []shape{
		ellipsoid(right, radii, 0.2, Liver, hu),
		ellipsoid(left, point{around(0.3, 0.05), around(0.17, 0.03), around(0.15, 0.03)}, 0.25, Liver, hu),
	}
	for range 6 {
		from := point{right[0] - 0.12, right[1], right[2] - 0.02}
		to := point{right[0] + radii[0]*around(0, 0.75), right[1] + radii[1]*around(0, 0.75),
			right[2] + radii[2]*around(0, 0.75)}
		shapes = append(shapes, tube([]point{from,
			{(from[0]+to[0])/2 + around(0, 0.05), (from[1]+to[1])/2 + around(0, 0.05), (from[2] + to[2]) / 2}, to},
			[]float64{0.035, 0.02}, organ, 0, Liver, hu+vessel)...)
	}
	if r.Float64() < 0.3 { // a cyst
		c := point{right[0] + around(0, 0.2), right[1] + around(0, 0.25), right[2] + around(0, 0.15)}
		cyst := ellipsoid(c, point{0.06, 0.07, 0.08}, 0, Liver, 10)
		cyst.over = organ
		shapes = append(shapes, cyst)
	}
	return shapes
}

// stomach holds a fluid, or contrast medium, that settles at the back, and gas that rises to the
// front: the patient lies on the back.
func stomach(around func(middle, spread float64) float64) shape {
	middle := point{around(-0.34, 0.05), around(0.25, 0.04), around(0.24, 0.06)}
	radii := point{around(0.2, 0.05), around(0.2, 0.04), around(0.28, 0.06)}
	level := around(0.3, 0.5) // of the fluid, as a share of the radius
	fluid := float32(around(60, 55))
	body := ellipsoid(middle, radii, 0.5, Stomach, 0)
	body.inside = within(middle, radii, 0.5, func(depth, y float64) (float32, uint16, tissue) {
		switch {
		case depth > 0.72:
			return 70, Stomach, organ // the wall
		case y > level:
			return -800, Stomach, organ
		}
		return fluid, Stomach, organ
	})
	return body
}

// kidney is a bean: cortex, a darker medulla, fat in the hilum that looks to the spine.
func kidney(middle point, around func(middle, spread float64) float64, side float64, label uint16, hu float32) shape {
	radii := point{around(0.125, 0.015), around(0.14, 0.015), around(0.29, 0.03)}
	hilum := point{middle[0] - side*radii[0], middle[1] + 0.3*radii[1], middle[2]}
	s := ellipsoid(middle, radii, 0.25*side, label, hu)
	outer := within(middle, radii, 0.25*side, func(depth, _ float64) (float32, uint16, tissue) {
		if depth > 0.55 {
			return hu, label, organ
		}
		return hu - 45, label, organ
	})
	s.inside = func(x, y, z float64) (float32, uint16, tissue) {
		a, b, c := (x-hilum[0])/0.1, (y-hilum[1])/0.08, (z-hilum[2])/0.13
		if a*a+b*b+c*c < 1 {
			return 0, 0, 0
		}
		return outer(x, y, z)
	}
	return s
}

// bowel is a tangle of loops in the lower abdomen and along the flanks: walls as bright as the
// pancreas, filled with fluid, contrast medium or gas.
func bowel(r *rand.Rand, around func(middle, spread float64) float64) []shape {
	var shapes []shape
	for range 24 {
		at := point{around(0, 0.55), around(0.22, 0.3), around(-0.5, 0.5)}
		path := []point{at}
		for range 4 {
			at = point{at[0] + around(0, 0.2), at[1] + around(0, 0.14), at[2] + around(0, 0.2)}
			path = append(path, at)
		}
		radius := around(0.075, 0.025)
		shapes = append(shapes, tube(path, []float64{radius}, cavity|organ, 0.2, 0, float32(around(85, 25)))...)
		content := float32(around(40, 40))
		switch pick := r.Float64(); {
		case pick < 0.25:
			content = -750
		case pick < 0.4:
			content = 250
		case pick < 0.6:
			continue // collapsed
		}
		shapes = append(shapes, tube(path, []float64{radius * 0.65}, organ, 0.2, 0, content)...)
	}
	return shapes
}

// ellipsoid is one of uniform HU, turned by an angle (radians) in the plane of x and z.
func ellipsoid(middle, radii point, angle float64, label uint16, hu float32) shape {
	reach := math.Hypot(radii[0], radii[2])
	return shape{
		low:  point{middle[0] - reach, middle[1] - radii[1], middle[2] - reach},
		high: point{middle[0] + reach, middle[1] + radii[1], middle[2] + reach},
		over: cavity | organ,
		inside: within(middle, radii, angle, func(float64, float64) (float32, uint16, tissue) {
			return hu, label, organ
		}),
	}
}

// within calls f inside a turned ellipsoid with the squared distance from its middle (1 at its
// surface) and how far in front that is (-1 to 1).
func within(middle, radii point, angle float64, f func(depth, y float64) (float32, uint16, tissue)) func(x, y,
	z float64) (float32, uint16, tissue) {
	sin, cos := math.Sincos(angle)
	return func(x, y, z float64) (float32, uint16, tissue) {
		x, y, z = x-middle[0], (y-middle[1])/radii[1], z-middle[2]
		x, z = (cos*x-sin*z)/radii[0], (sin*x+cos*z)/radii[2]
		depth := x*x + y*y + z*z
		if depth > 1 {
			return 0, 0, 0
		}
		return f(depth, y)
	}
}

// tube is a chain of balls along a smooth path through the points, with radii between those given
// (over the path's length) that swell and shrink by the share lobed.
func tube(path []point, radii []float64, over tissue, lobed float64, label uint16, hu float32) []shape {
	var shapes []shape
	longest := 0.0
	for n := range len(path) - 1 {
		a, b := path[n], path[n+1]
		longest = max(longest, math.Hypot(math.Hypot(b[0]-a[0], b[1]-a[1]), b[2]-a[2]))
	}
	// from point to point: balls overlap enough to look smooth
	steps := int(math.Ceil(longest/(0.4*slices.Min(radii)))) + 1
	for n := range (len(path)-1)*steps + 1 {
		t := float64(n) / float64(steps)
		middle := along(path, t)
		share := t / float64(len(path)-1) * float64(len(radii)-1)
		first := min(int(share), len(radii)-1)
		second := min(first+1, len(radii)-1)
		radius := radii[first] + (share-float64(first))*(radii[second]-radii[first])
		radius *= 1 + lobed*triangle(1.7*t)
		square := radius * radius
		shapes = append(shapes, shape{
			low:  point{middle[0] - radius, middle[1] - radius, middle[2] - radius},
			high: point{middle[0] + radius, middle[1] + radius, middle[2] + radius},
			over: over,
			inside: func(x, y, z float64) (float32, uint16, tissue) {
				x, y, z = x-middle[0], y-middle[1], z-middle[2]
				if x*x+y*y+z*z > square {
					return 0, 0, 0
				}
				return hu, label, organ
			},
		})
	}
	return shapes
}

// along is the Catmull-Rom spline through the points: point n at t = n.
func along(path []point, t float64) point {
	n := min(int(t), len(path)-2)
	t -= float64(n)
	a, b, c, d := path[max(n-1, 0)], path[n], path[n+1], path[min(n+2, len(path)-1)]
	var p point
	for axis := range p {
		p[axis] = 0.5 * (2*b[axis] + t*(c[axis]-a[axis]) + t*t*(2*a[axis]-5*b[axis]+4*c[axis]-d[axis]) +
			t*t*t*(3*b[axis]-a[axis]-3*c[axis]+d[axis]))
	}
	return p
}
