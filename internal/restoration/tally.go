package restoration

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/pretext"
)

// A tally counts how well examples are restored.
type tally interface {
	// add counts one: outputs are the network's, (classes, D, H, W).
	add(e example, outputs []float32)
	// evaluation is the result, of a number of crops and cases.
	evaluation(crops, cases int) pretext.Evaluation
}

// tallies are those of some crops. Which of them counts is the task's.
type tallies struct {
	Restored restoredTally
	Told     toldTally
	Crops    int
}

func (t task) newTallies() *tallies {
	if n := t.outputs(); n > 1 {
		return &tallies{Told: toldTally{Matrix: make([]int, n*n), Classes: n}}
	}
	return &tallies{}
}

// which is the one that counts.
func (t *tallies) which() tally {
	if t.Told.Classes > 1 {
		return &t.Told
	}
	return &t.Restored
}

// join counts what others have counted.
func (t *tallies) join(other tallies) {
	t.Restored.join(other.Restored)
	t.Told.join(other.Told)
	t.Crops += other.Crops
}

// restoredTally adds up squared errors over the voxels that count: those of the restored crop, and
// those of two simple answers, the input as it is and the crop's mean.
type restoredTally struct {
	Restored, Input, Mean float64 // squares
	Voxels                int
}

func (t *restoredTally) join(other restoredTally) {
	t.Restored += other.Restored
	t.Input += other.Input
	t.Mean += other.Mean
	t.Voxels += other.Voxels
}

func (t *restoredTally) add(e example, outputs []float32) {
	outs, inputs, counts := e.channels(outputs), e.channels(e.input), e.channels(e.counts)
	for channel, target := range e.channels(e.target) {
		t.addChannel(target, inputs[channel], outs[channel], counts[channel])
	}
}

func (t *restoredTally) addChannel(target, input, output, counts []float32) {
	sum, n := 0.0, 0
	for i, y := range target {
		if counts[i] != 0 {
			sum += float64(y)
			n++
		}
	}
	mean := sum / float64(max(n, 1))
	square := func(a, b float64) float64 { return (a - b) * (a - b) }
	for i, y := range target {
		if counts[i] == 0 {
			continue
		}
		t.Restored += square(float64(output[i]), float64(y))
		t.Input += square(float64(input[i]), float64(y))
		t.Mean += square(mean, float64(y))
	}
	t.Voxels += n
}

// explained is the share of the variance that is explained: 1 - squares / squares about the mean.
func (t *restoredTally) explained(squares float64) float64 {
	if t.Mean == 0 {
		return 0 // crops of one intensity each
	}
	return 1 - squares/t.Mean
}

func (t *restoredTally) evaluation(crops, cases int) pretext.Evaluation {
	explained, chance := t.explained(t.Restored), max(0, t.explained(t.Input))
	better := "every voxel the mean of its crop's"
	if chance > 0 {
		better = "the crop left as it is shown"
	}
	voxels := float64(max(t.Voxels, 1))
	return pretext.Evaluation{
		Cases: cases, Items: crops, Measures: []pretext.Measure{{Key: "explained", Title: "variance explained"}},
		Rounds: [][]float64{{explained}}, Chance: []float64{chance},
		Notes: []string{fmt.Sprintf("1 - squared error / squared error of the mean, of the voxels to restore. "+
			"Chance: %s, the better of two simple answers.", better)},
		Record: struct {
			Cases     int     `json:"cases"`
			Crops     int     `json:"crops"`
			Explained float64 `json:"explained"`
			Chance    float64 `json:"chance"`
			Error     float64 `json:"mse"`
			OfInput   float64 `json:"mse_of_input"`
			OfMean    float64 `json:"mse_of_mean"`
		}{cases, crops, explained, chance, t.Restored / voxels, t.Input / voxels, t.Mean / voxels},
	}
}

// toldTally counts voxels by their class (rows) and the class that is told (columns).
type toldTally struct {
	Matrix  []int
	Classes int
}

func (t *toldTally) join(other toldTally) {
	for i, n := range other.Matrix {
		t.Matrix[i] += n
	}
}

func (t *toldTally) add(e example, outputs []float32) {
	for i, class := range tell(outputs, t.Classes) {
		t.Matrix[int(e.target[i])*t.Classes+int(class)]++
	}
}

// tell is the class of each voxel with the highest logit, the first of equals.
func tell(logits []float32, classes int) []float32 {
	voxels := len(logits) / classes
	told := make([]float32, voxels)
	for i := range told {
		for class := 1; class < classes; class++ {
			if logits[class*voxels+i] > logits[int(told[i])*voxels+i] {
				told[i] = float32(class)
			}
		}
	}
	return told
}

// scores are the share of voxels told right, and the mean Dice over the classes that occur.
func (t *toldTally) scores() (correct, dice float64) {
	all, there := 0, 0
	for class := range t.Classes {
		truth, told := 0, 0
		for other := range t.Classes {
			truth += t.Matrix[class*t.Classes+other]
			told += t.Matrix[other*t.Classes+class]
		}
		right := t.Matrix[class*t.Classes+class]
		all += truth
		correct += float64(right)
		if truth+told > 0 {
			there++
			dice += 2 * float64(right) / float64(truth+told)
		}
	}
	return correct / float64(max(all, 1)), dice / float64(max(there, 1))
}

// blind is the tally of an answer that is always the most common class.
func (t *toldTally) blind() *toldTally {
	truth := make([]int, t.Classes)
	for class := range truth {
		for _, n := range t.Matrix[class*t.Classes:][:t.Classes] {
			truth[class] += n
		}
	}
	common := slices.Index(truth, slices.Max(truth))
	b := &toldTally{Matrix: make([]int, len(t.Matrix)), Classes: t.Classes}
	for class, n := range truth {
		b.Matrix[class*t.Classes+common] = n
	}
	return b
}

func (t *toldTally) evaluation(crops, cases int) pretext.Evaluation {
	correct, dice := t.scores()
	chance, blind := t.blind().scores()
	return pretext.Evaluation{
		Cases: cases, Items: crops, Measures: []pretext.Measure{{Key: "correct", Title: "voxels correct"},
			{Key: "dice", Title: "mean Dice of the shares"}}, Score: 1,
		Rounds: [][]float64{{correct, dice}}, Chance: []float64{chance, blind},
		Notes: []string{"Chance: the most common share everywhere."},
		Record: struct {
			Cases   int        `json:"cases"`
			Crops   int        `json:"crops"`
			Correct float64    `json:"correct"`
			Dice    float64    `json:"dice"`
			Chance  [2]float64 `json:"chance"`
		}{cases, crops, correct, dice, [2]float64{chance, blind}},
	}
}
