package photonet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// PyTorch's weights. A file has the names and shapes that torchvision's state_dict has, with
// weights of convolutions of four axes (out, in, height, width); ours have a depth of 1 between.
// Its prefixes are those that training scripts leave: "module." (DataParallel), "backbone.",
// "encoder.". AlexNet's names are Caffe's, or those of the context-free network in PyTorch
// (bbrattoli/JigsawPuzzlePytorch): conv.conv1_s1.weight, fc6.fc6_s1.weight.

// ToPyTorch is the name and shape in a file of a parameter or state; ok is false for those that are
// no part of a network on photographs, such as a puzzle's head. torchvision's model of the same
// kind loads what has these names (load_state_dict).
func ToPyTorch(name string, s []int) (string, []int, bool) {
	short, encoder := strings.CutPrefix(name, EncoderPrefix)
	if !encoder && !isClassifier(name) {
		return "", nil, false
	}
	if len(s) == 5 && s[2] == 1 {
		return short, slices.Concat(s[:2], s[3:]), true
	}
	return short, s, true
}

// isClassifier says whether a parameter is one of [Network.Classify].
func isClassifier(name string) bool {
	layer, _, _ := strings.Cut(name, ".")
	return slices.Contains([]string{"fc", "fc7", "fc8"}, layer)
}

// fromPyTorch is our name of a tensor of a file.
func fromPyTorch(name string) string {
	for _, prefix := range []string{"module.", "backbone.", EncoderPrefix} {
		name = strings.TrimPrefix(name, prefix)
	}
	if m := contextFree.FindStringSubmatch(name); m != nil {
		name = m[1] + m[2]
	}
	if isClassifier(name) {
		return name
	}
	return EncoderPrefix + name
}

// contextFree are layers of the context-free network that look at one patch.
var contextFree = regexp.MustCompile(`^(?:conv|fc6)\.(conv[1-5]|fc6)_s1(\.\w+)$`)

// Import sets the parameters and states of a network from a safetensors file of PyTorch's, by name,
// where the shapes agree. The report says what was loaded and what was not. A file of which nothing
// can be used is an error.
func Import(path string, params *nn.Params) (voxsaw.Loaded, error) {
	r := voxsaw.Loaded{Path: path}
	f, err := safetensors.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	known := map[string]bool{}
	for _, name := range params.Names() {
		known[name] = true
	}
	var values []float32 // of one tensor at a time
	for _, inFile := range f.Names() {
		name := fromPyTorch(inFile)
		switch reason := whyNot(f, inFile, name, known[name], params); {
		case reason != "":
			r.Skipped = append(r.Skipped, voxsaw.Skip{Name: inFile, Reason: reason})
		default:
			if values, err = f.ReadInto(inFile, values); err != nil {
				return r, fmt.Errorf("reading %s: %w", path, err)
			}
			if err := params.Write(name, values); err != nil {
				return r, fmt.Errorf("setting %q: %w", name, err)
			}
			known[name] = false // a second one would overwrite it
			r.Loaded = append(r.Loaded, name)
		}
	}
	for _, name := range params.Names() {
		if known[name] {
			r.Missing = append(r.Missing, name)
		}
	}
	if len(r.Loaded) == 0 && f.Has("features.0.weight") && f.Has("classifier.6.weight") {
		return r,
			fmt.Errorf("%s is torchvision's AlexNet (or a VGG), which is another network than the AlexNet here: that "+
				"is Caffe's, with groups and normalisation, as the paper has it", path)
	}
	if len(r.Loaded) == 0 {
		return r, fmt.Errorf("no weights of the file fit this network: is it of another kind or width?\n  %v", r)
	}
	return r, nil
}

// whyNot is why a tensor of a file cannot be used, "" if it can.
func whyNot(f *safetensors.File, inFile, name string, wanted bool, params *nn.Params) string {
	if strings.HasSuffix(inFile, ".num_batches_tracked") {
		return "a counter that nothing here needs"
	}
	if !wanted {
		return "not in this network"
	}
	_, want, _ := ToPyTorch(name, params.Shape(name))
	if got := f.Shape(inFile); !slices.Equal(got, want) && !slices.Equal(got, params.Shape(name)) {
		return fmt.Sprintf("shape %v in the file, %v in the network", numbers.Extents(got), numbers.Extents(want))
	}
	return ""
}
