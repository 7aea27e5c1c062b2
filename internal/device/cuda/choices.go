//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Several algorithms can make the same convolution: our own variants, among which the shape decides
// without a measurement, and cuDNN's plans, which are used only where somebody has measured them.

// convOperands are those of a convolution: y <- x, w, [bias], as adjoint x <- y, w, [bias], and of
// its weights' gradient dw <- x, dy. Our own variants leave the result's moments where they are
// told to.
type convOperands struct{ to, a, b, bias, moments operand }

// A variant is one way to make a kernel of a convolution.
type variant struct {
	name   string
	append func(k *kernel, o convOperands)
}

// own lists the variants of our own, the one that the shape asks for first.
func (d *Device) own(s device.ConvSpec, kind device.ConvKind) (list []variant) {
	if kind == device.ConvWeights {
		list = []variant{{"split", func(k *kernel, o convOperands) { k.gradWeights(s, o.to, o.a, o.b) }}}
		if isPoint(s) {
			list = append(list, variant{"points",
				func(k *kernel, o convOperands) { k.pointWeights(s, o.to, o.a, o.b) }})
		}
		if isPoint(s) && pointsPay(s) {
			slices.Reverse(list)
		}
		if a, ok := d.rowsWeightsFor(s); ok {
			list = append(list, variant{"rows",
				func(k *kernel, o convOperands) { k.rowsWeights(s, a, o.to, o.a, o.b) }})
			if a.pays() {
				slices.Reverse(list)
			}
		}
		// No GPU has timed it: it is one that tune measures, and none that a shape asks for.
		if a, ok := d.groupWeightsFor(s); ok {
			list = append(list, variant{"warpgroups",
				func(k *kernel, o convOperands) { k.groupWeights(s, a, o.to, o.a, o.b) }})
		}
		if oneWeights(s) {
			list = append(list, variant{"one channel",
				func(k *kernel, o convOperands) { k.oneWeights(s, o.to, o.a, o.b) }})
			slices.Reverse(list)
		}
		return list
	}
	c := forward(s)
	if kind == device.ConvTransposed {
		c = adjoint(s)
	}
	var others []variant
	if a, ok := d.convGroupsFor(c, s.Type); ok {
		v := variant{"warpgroups",
			func(k *kernel, o convOperands) { k.convGroups(a, o.to, o.moments, o.a, o.b, o.bias) }}
		if _, rows := d.conv5For(c, s.Type); a.pays(rows) {
			list = append(list, v)
		} else {
			others = append(others, v)
		}
	}
	for i, tile := range conv5Tiles(c.Out) {
		a, fits := d.conv5Fits(c, s.Type, tile)
		if !fits {
			continue
		}
		v := variant{[]string{"rows", "rows, 32 voxels a warp"}[i],
			func(k *kernel, o convOperands) { k.conv5(a, c, o.to, o.moments, o.a, o.b, o.bias) }}
		if i == 0 && a.pays() {
			list = append(list, v)
		} else {
			others = append(others, v)
		}
	}
	if c.is5One(s.Type) {
		list = append(list, variant{"one channel",
			func(k *kernel, o convOperands) { k.conv5One(c, s.Type, o.to, o.moments, o.a, o.b, o.bias) }})
	}
	live := c.live()
	if a, ok := patchesFor(live.convolution, s.Type); ok {
		if b, how, ok := d.directFor(a, s.Type); ok && c.pieces() < 1<<32 {
			list = append(list, variant{"direct",
				func(k *kernel, o convOperands) { k.convDirect(b, how, live, o.to, o.moments, o.a, o.b, o.bias) }})
		}
		if kind == device.ConvTransposed && fewIn(a, s.Type) {
			list = append(list, variant{"few channels",
				func(k *kernel, o convOperands) { k.convFewIn(a, live, o.to, o.a, o.b, o.bias) }})
		}
		list = append(list, variant{"patches",
			func(k *kernel, o convOperands) { k.convPatches(a, live, s.Type, o.to, o.moments, o.a, o.b, o.bias) }})
	}
	list = append(list, variant{"gathered",
		func(k *kernel, o convOperands) { k.convGeneral(c, s.Type, o.to, o.moments, o.a, o.b, o.bias) }})
	return append(list, others...)
}

// reference is the variant that others are compared with: the implicit matrix product, which makes
// any shape.
func (d *Device) reference(s device.ConvSpec, kind device.ConvKind) variant {
	list := d.own(s, kind)
	return list[slices.IndexFunc(list, func(v variant) bool { return v.name == "gathered" || v.name == "split" })]
}

// convolution appends the variant that is chosen for a kernel of a convolution, or ours.
func (k *kernel) convolution(s device.ConvSpec, kind device.ConvKind, o convOperands) {
	if k.err != nil {
		return
	}
	v, err := k.d.variant(s, kind)
	if err != nil {
		k.err = err
		return
	}
	v.append(k, o)
}

// variant is the chosen one. A plan of cuDNN that is not to be had, or that is found to be wrong,
// is noted, and ours takes its place; the name of a variant that nobody knows is an error.
func (d *Device) variant(s device.ConvSpec, kind device.ConvKind) (variant, error) {
	list, key := d.own(s, kind), device.ChoiceKey(s, kind)
	name, ok := d.choices[key]
	if !ok {
		return list[0], nil
	}
	for _, v := range list {
		if v.name == name {
			d.inForce[key] = name
			return v, nil
		}
	}
	p, ok := parsePlan(name)
	if !ok {
		names, _ := d.Candidates(s, kind)
		return variant{},
			fmt.Errorf("the choice for %s is %q, which is none of its algorithms here (%s): measure again", key, name,
				strings.Join(names, ", "))
	}
	v, err := d.planned(s, kind, p)
	if err == nil {
		err = d.verify(s, kind, v)
		d.forgetProblem()
	}
	if errors.As(err, new(*brokenError)) {
		return variant{}, err
	}
	if err != nil {
		d.refuse(key, name, err)
		return list[0], nil
	}
	d.inForce[key] = name
	return v, nil
}

// refuse notes that a choice is not followed. What is wrong with the library itself is noted once.
func (d *Device) refuse(key, name string, err error) {
	text := fmt.Sprintf("%s: %s is refused, our own kernel computes it: %v", key, name, err)
	if errors.As(err, new(*libraryError)) {
		text = fmt.Sprintf("cuDNN is not used, our own kernels compute what was chosen for it: %v", err)
	}
	if !slices.Contains(d.refused, text) {
		d.refused = append(d.refused, text)
	}
}

// Engines implements [device.EngineTeller].
func (d *Device) Engines() (inForce, refused []string) {
	for _, key := range slices.Sorted(maps.Keys(d.inForce)) {
		inForce = append(inForce, key+" = "+d.inForce[key])
	}
	return inForce, slices.Clone(d.refused)
}

// Candidates implements [device.Chooser]. Plans of cuDNN are among them where the library is there,
// and where they were found to be right.
func (d *Device) Candidates(s device.ConvSpec, kind device.ConvKind) ([]string, error) {
	if err := checkConv(s); err != nil {
		return nil, err
	}
	var names []string
	for _, v := range d.own(s, kind) {
		names = append(names, v.name)
	}
	plans, err := d.proposed(s, kind)
	if err != nil {
		d.refuse(device.ChoiceKey(s, kind), "cuDNN", err)
	}
	defer d.forgetProblem()
	for _, v := range plans {
		if err := d.verify(s, kind, v); err != nil {
			if errors.As(err, new(*brokenError)) {
				return nil, err
			}
			d.refuse(device.ChoiceKey(s, kind), v.name, err)
			continue
		}
		names = append(names, v.name)
	}
	return names, nil
}

// MeasuredOn implements [device.Chooser]. What was measured beside other kernels says nothing of
// these.
func (d *Device) MeasuredOn() string {
	return fmt.Sprintf("%s, driver %s, %s, kernels %s", d.name, driverVersion(), d.precision, d.kernels)
}
