package jigsaw

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// ChooseOrders gives the k orders of n patches that a K-way puzzle chooses among: the ones that are
// listed as texts, or, of an empty list, those that [puzzle.Select] draws from the seed. The result
// is shared: callers leave it as it is. A context that ends stops the drawing.
func ChooseOrders(ctx context.Context, from uint64, n, k int, criterion string, listed []string) (puzzle.Selection,
	error) {
	if len(listed) == 0 {
		return drawOrders(ctx, from, n, k, criterion)
	}
	if len(listed) != k {
		return nil, fmt.Errorf("%d orders are listed, classes is %d", len(listed), k)
	}
	selection := make(puzzle.Selection, k)
	for i, text := range listed {
		var err error
		if selection[i], err = parseOrder(text); err != nil {
			return nil, err
		}
	}
	return selection, selection.Check(n)
}

// CheckOrders says whether [ChooseOrders] has such orders to choose, without drawing any: settings
// are checked where nothing can be stopped.
func CheckOrders(n, k int, criterion string, listed []string) error {
	if len(listed) == 0 {
		return puzzle.CheckSelect(n, k, criterion)
	}
	_, err := ChooseOrders(context.Background(), 0, n, k, criterion, listed)
	return err
}

// drawn keeps the selections that were drawn: a study begins many trainings of the same orders.
var drawn sync.Map // of a drawing, a puzzle.Selection

type drawing struct {
	seed      uint64
	n, k      int
	criterion string
}

func drawOrders(ctx context.Context, from uint64, n, k int, criterion string) (puzzle.Selection, error) {
	key := drawing{from, n, k, criterion}
	if known, ok := drawn.Load(key); ok {
		return known.(puzzle.Selection), nil
	}
	selection, err := puzzle.Select(ctx, seed.Rand(from, "orders"), n, k, criterion)
	if err == nil {
		drawn.Store(key, selection)
	}
	return selection, err
}

// FormatOrder writes an order as text, such as "0 2 1 3": the patch that lies in each slot.
func FormatOrder(c puzzle.Configuration) string {
	words := make([]string, len(c))
	for s, patch := range c {
		words[s] = strconv.Itoa(patch)
	}
	return strings.Join(words, " ")
}

func parseOrder(text string) (puzzle.Configuration, error) {
	var c puzzle.Configuration
	for _, word := range strings.Fields(text) {
		patch, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("order %q: want numbers of patches, such as \"0 2 1 3\"", text)
		}
		c = append(c, patch)
	}
	return c, nil
}
