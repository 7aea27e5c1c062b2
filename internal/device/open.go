package device

import (
	"fmt"
	"strings"
)

// From is the device behind one that the library has opened: public packages show their users an
// interface of its own, which names nothing of this package.
func From(opened any) (Device, error) {
	d, ok := opened.(Device)
	if !ok || d == nil {
		return nil, fmt.Errorf("%T is no device that networks run on: use one that voxsaw.Open has opened", opened)
	}
	return d, nil
}

// Computer takes the kind of device and how it multiplies out of what [Device.Describe] says:
// "cpu", "cuda bf16".
func Computer(described string) string {
	if _, gpu, on := strings.Cut(described, ", driver of CUDA "); on {
		return "cuda " + gpu[strings.LastIndex(gpu, " ")+1:]
	}
	return "cpu"
}

// Unlike says whether results of two computers, of which "" is unknown, differ in more than the
// last bits: unless both are exact.
func Unlike(a, b string) bool {
	exact := func(s string) bool { return s == "cpu" || s == "cuda fp32" }
	return a != b && a != "" && b != "" && !(exact(a) && exact(b))
}
