package device

import "fmt"

// From is the device behind one that the library has opened: public packages show their users an
// interface of its own, which names nothing of this package.
func From(opened any) (Device, error) {
	d, ok := opened.(Device)
	if !ok || d == nil {
		return nil, fmt.Errorf("%T is no device that networks run on: use one that voxsaw.Open has opened", opened)
	}
	return d, nil
}
