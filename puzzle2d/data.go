package puzzle2d

import (
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// smallerBatch is what is left where batches cannot be divided.
const smallerBatch = "take a smaller batch"

// folder is the prepared photographs that a store of samples has.
func folder(of sample.Store) (*photos.Store, error) {
	if store, ok := of.(*photos.Store); ok {
		return store, nil
	}
	return nil, errors.New("there are no prepared photographs in the data: prepare them with voxsaw 2d prepare")
}

// photographs are those of names.
func photographs(of sample.Store, names []string) ([]photos.Photo, error) {
	all, err := sample.Open(of, names)
	if err != nil {
		return nil, err
	}
	list := make([]photos.Photo, len(all))
	for i, s := range all {
		var ok bool
		if list[i], ok = s.(photos.Photo); !ok {
			return nil, fmt.Errorf("%s is no prepared photograph: prepare it with voxsaw 2d prepare", s.Name())
		}
	}
	return list, nil
}

// labelOf is the class of a photograph, or less than 0.
func labelOf(photo sample.Sample) int {
	if of, ok := photo.(interface{ Label() int }); ok {
		return of.Label()
	}
	return photos.Unlabelled
}

// labelled leaves out the photographs without a class, such as those of ImageNet's flat folder val
// or of Caltech's clutter: there is nothing to learn of them, nor to compare an answer with. The
// notes say how many, and what is not known without them.
func labelled(d sample.Data) (_ sample.Data, notes []string, err error) {
	store, err := folder(d.Store)
	if err != nil {
		return d, nil, err
	}
	without := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			n, known := store.Number(name)
			return known && store.Label(n) < 0
		})
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
func Split(store *photos.Store) sample.Data {
	d := sample.Data{Store: store}
	var tested []string
	for n := range store.Len() {
		switch name := store.Name(n); store.Split(n) {
		case photos.Train:
			d.Train = append(d.Train, name)
		case photos.Val:
			d.Validate = append(d.Validate, name)
		default:
			tested = append(tested, name)
		}
	}
	if len(d.Validate) == 0 {
		d.Validate = tested
	}
	return d
}
