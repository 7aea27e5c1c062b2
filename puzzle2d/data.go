package puzzle2d

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// smallerBatch is what is left where batches cannot be divided.
const smallerBatch = "take a smaller batch"

// Data is prepared photographs by their role: their numbers in the folder.
type Data struct {
	Photos   *photos.Store
	Train    []int
	Validate []int // held out; may be empty
}

// Samples is the data by the photographs' names.
func (d Data) Samples() sample.Data {
	names := func(photographs []int) []string {
		list := make([]string, len(photographs))
		for i, n := range photographs {
			list[i] = d.Photos.Name(n)
		}
		return list
	}
	return sample.Data{Store: d.Photos, Train: names(d.Train), Validate: names(d.Validate)}
}

// numbered is the data of a folder of photographs by their numbers.
func numbered(data sample.Data) Data {
	store := data.Store.(*photos.Store)
	numbers := func(names []string) []int {
		list := make([]int, len(names))
		for i, name := range names {
			list[i], _ = store.Number(name)
		}
		return list
	}
	return Data{Photos: store, Train: numbers(data.Train), Validate: numbers(data.Validate)}
}

// numbersOf is the numbers of photographs, at least one, and where they lie.
func numbersOf(photographs []sample.Sample) (store *photos.Store, numbers []int) {
	for _, p := range photographs {
		photo := p.(photos.Photo)
		store, numbers = photo.Store(), append(numbers, photo.Number())
	}
	return store, numbers
}

// labelled leaves out the photographs without a class, such as those of ImageNet's flat folder val
// or of Caltech's clutter: there is nothing to learn of them, nor to compare an answer with. The
// notes say how many, and what is not known without them.
func (d Data) labelled() (_ Data, notes []string, err error) {
	without := func(photographs []int) []int {
		return slices.DeleteFunc(slices.Clone(photographs), func(n int) bool { return d.Photos.Label(n) < 0 })
	}
	train, validate := without(d.Train), without(d.Validate)
	if len(train) == 0 {
		return d, nil, fmt.Errorf("none of the %s to train on has a class: each class is a folder of its own",
			numbers.Count(len(d.Train), "photograph"))
	}
	if n := len(d.Train) - len(train); n > 0 {
		notes = append(notes, fmt.Sprintf("not trained on, having no class: %d of %s", n,
			numbers.Count(len(d.Train), "photograph")))
	}
	switch n := len(d.Validate) - len(validate); {
	case n > 0 && len(validate) == 0:
		notes = append(notes,
			fmt.Sprintf("WARNING: none of the %s held out has a class: nothing is validated, and the "+
				"weights of the last step are all there is", numbers.Count(n, "photograph")))
	case n > 0:
		notes = append(notes, fmt.Sprintf("not validated on, having no class: %d of %s held out", n,
			numbers.Count(len(d.Validate), "photograph")))
	}
	d.Train, d.Validate = train, validate
	return d, notes, nil
}

// Spread takes at most n photographs, spread evenly; 0: all.
func Spread[T any](photographs []T, n int) []T {
	if n == 0 || len(photographs) <= n {
		return photographs
	}
	chosen := make([]T, n)
	for k := range chosen {
		chosen[k] = photographs[k*len(photographs)/n]
	}
	return chosen
}

// Split gives prepared photographs their roles: those to train on, and those held out for
// validation, or else for testing.
func Split(store *photos.Store) Data {
	d := Data{Photos: store}
	var tested []int
	for n := range store.Len() {
		switch store.Split(n) {
		case photos.Train:
			d.Train = append(d.Train, n)
		case photos.Val:
			d.Validate = append(d.Validate, n)
		default:
			tested = append(tested, n)
		}
	}
	if len(d.Validate) == 0 {
		d.Validate = tested
	}
	return d
}
