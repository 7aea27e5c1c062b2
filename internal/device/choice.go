package device

import "fmt"

// Several algorithms can compute the same convolution, and which one is the fastest a device may
// be told: what it has no choice for it decides itself.

// ConvKind is one of the three kernels of a convolution.
type ConvKind string

// The kinds: of Conv, ConvTransposed and ConvGradWeights.
const (
	ConvForward    ConvKind = "forward"
	ConvTransposed ConvKind = "transposed"
	ConvWeights    ConvKind = "weights"
)

// ChoiceKey names a kernel of a convolution in a device's choices. A bias makes no difference.
func ChoiceKey(s ConvSpec, kind ConvKind) string {
	groups := ""
	if s.Grouped() {
		groups = fmt.Sprintf(" in %d groups", s.Groups)
	}
	return fmt.Sprintf("%s %dx%d-%d @%dx%dx%d kernel %dx%dx%d stride %dx%dx%d pad %dx%dx%d%s", kind, s.N, s.In, s.Out,
		s.Size[0], s.Size[1], s.Size[2], s.Kernel[0], s.Kernel[1], s.Kernel[2], s.Stride[0], s.Stride[1], s.Stride[2],
		s.Pad[0], s.Pad[1], s.Pad[2], groups)
}

// A Chooser is a device that was given a map of choices, from [ChoiceKey] to the name of an
// algorithm. It looks into the map whenever it makes a kernel.
type Chooser interface {
	Device
	// Candidates lists the algorithms for a kernel of a convolution that may be chosen, the one
	// that is taken without a choice first.
	Candidates(ConvSpec, ConvKind) ([]string, error)
	// MeasuredOn is what choices are valid for: the machine, and what its speed depends on.
	MeasuredOn() string
}

// A Librarian uses libraries that are optional.
type Librarian interface {
	Device
	// Libraries says of each whether it is there, or where it was looked for, a sentence each.
	Libraries() []string
}

// An EngineTeller says which algorithms are in force by choice.
type EngineTeller interface {
	Device
	// Engines are the choices that the kernels made so far follow, as "convolution = algorithm",
	// sorted; and, in refused, which could not be followed, and why.
	Engines() (inForce, refused []string)
}
