// Package totalseg predicts with the models of TotalSegmentator as its users have downloaded them:
// the folder nnunet/results, in which a task is one model of nnU-Net or several, each for a part of
// the classes. Scans are prepared, and parts merged, as TotalSegmentator does.
//
// Start at [Open] and [Model.Predict]. What a model itself computes, package nnunet does. Names of
// classes are those of the models' own dataset.json.
//
// It leaves out tasks that look only at a box around organs that another task finds, and tasks
// whose label maps are cleaned up afterwards: they are refused by their names.
package totalseg

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// Task is what TotalSegmentator finds in one go. The table is that of TotalSegmentator 2.18.0.
type Task struct {
	Name string
	// Parts are the numbers of the models' data sets, in the order in which they are merged.
	// Classes of each count from where those of the parts before it end, so that label maps have
	// the same numbers as TotalSegmentator's, whichever parts are there.
	Parts   []int
	Classes []int // of each part; nil for a single one, all of whose classes are taken
	// Spacing is what scans are resampled to first, along (i, j, k) of RAS axes, in mm.
	Spacing [3]float64
	// Step is how far windows lie apart, as a share of one.
	Step     float64
	AllFolds bool // of which otherwise the first is taken
	// Licensed tasks are not free for commercial use.
	Licensed bool
	// Refused says what of it is not done here; "" for nothing.
	Refused string
}

const (
	cropped = "it looks only at a box around organs that another task finds first"
	cleaned = "its label maps are cleaned up afterwards"
)

func cube(mm float64) [3]float64 { return [3]float64{mm, mm, mm} }

var tasks = []Task{
	{Name: "total", Parts: []int{291, 292, 293, 294, 295}, Classes: []int{24, 26, 18, 23, 26}, Spacing: cube(1.5),
		Step: 0.8},
	{Name: "total-fast", Parts: []int{297}, Spacing: cube(3), Step: 0.8},
	{Name: "total-fastest", Parts: []int{298}, Spacing: cube(6), Step: 0.8},
	{Name: "total_v3", Parts: []int{831, 832, 833, 834, 835}, Classes: []int{24, 26, 18, 23, 26}, Spacing: cube(1.5),
		Step: 0.8},
	{Name: "total_v3-fast", Parts: []int{836}, Spacing: cube(3), Step: 0.8},
	{Name: "total_v3-fastest", Parts: []int{837}, Spacing: cube(6), Step: 0.8},
	{Name: "total_mr", Parts: []int{850, 851}, Classes: []int{29, 21}, Spacing: cube(1.5), Step: 0.8},
	{Name: "total_mr-fast", Parts: []int{852}, Spacing: cube(3), Step: 0.8},
	{Name: "total_mr-fastest", Parts: []int{853}, Spacing: cube(6), Step: 0.8},
	{Name: "body_mr", Parts: []int{597}, Spacing: cube(1.5)},
	{Name: "vertebrae_mr", Parts: []int{756}, Spacing: cube(1.5)},
	{Name: "breasts", Parts: []int{527}, Spacing: cube(1.5)},
	{Name: "trunk_cavities", Parts: []int{343}, Spacing: cube(1.5)},
	{Name: "vertebrae_body", Parts: []int{305}, Spacing: cube(1.5)},
	{Name: "brain_aneurysm", Parts: []int{615}, Spacing: [3]float64{0.390625, 0.390625, 0.5000016391277313},
		AllFolds: true},
	{Name: "appendicular_bones", Parts: []int{304}, Classes: []int{11}, Spacing: cube(1.5), Licensed: true},
	{Name: "appendicular_bones_mr", Parts: []int{855}, Spacing: cube(1.5), Licensed: true},
	{Name: "tissue_types", Parts: []int{481}, Spacing: cube(1.5), Licensed: true},
	{Name: "tissue_types_mr", Parts: []int{925}, Spacing: cube(1.5), Licensed: true},
	{Name: "tissue_4_types", Parts: []int{485}, Spacing: cube(1.5), Licensed: true},
	{Name: "face", Parts: []int{303}, Spacing: cube(1.5), Licensed: true},
	{Name: "face_mr", Parts: []int{856}, Classes: []int{1}, Spacing: cube(1.5), Licensed: true},
	{Name: "thigh_shoulder_muscles", Parts: []int{857}, Spacing: cube(1.5), Licensed: true},
	{Name: "renal_arteries", Parts: []int{710}, Classes: []int{3}, Spacing: cube(1.5), Licensed: true},
	{Name: "aorta_annulus", Parts: []int{713}, Spacing: cube(0.8), AllFolds: true, Licensed: true},
	{Name: "aortic_dissection", Parts: []int{716}, Spacing: cube(0.8), AllFolds: true, Licensed: true},
	{Name: "pulmonary_artery_landmarks", Parts: []int{514}, Spacing: [3]float64{0.7802734375, 0.7802734375, 1},
		AllFolds: true, Licensed: true},

	{Name: "body", Parts: []int{299}, Refused: cleaned},
	{Name: "body-fast", Parts: []int{300}, Refused: cleaned},
	{Name: "vertebrae_pp", Parts: []int{803}, Refused: cleaned},
	{Name: "lung_vessels", Parts: []int{117}, Refused: cropped},
	{Name: "lung_vessels_LEGACY", Parts: []int{258}, Refused: cropped},
	{Name: "cerebral_bleed", Parts: []int{150}, Refused: cropped},
	{Name: "hip_implant", Parts: []int{260}, Refused: cropped},
	{Name: "pleural_pericard_effusion", Parts: []int{315}, Refused: cropped},
	{Name: "liver_vessels", Parts: []int{8}, Refused: cropped},
	{Name: "head_glands_cavities", Parts: []int{775}, Refused: cropped},
	{Name: "headneck_bones_vessels", Parts: []int{776}, Refused: cropped},
	{Name: "head_muscles", Parts: []int{777}, Refused: cropped},
	{Name: "headneck_muscles", Parts: []int{778, 779}, Refused: cropped},
	{Name: "oculomotor_muscles", Parts: []int{351}, Refused: cropped},
	{Name: "lung_nodules", Parts: []int{913}, Refused: cropped},
	{Name: "kidney_cysts", Parts: []int{789}, Refused: cropped},
	{Name: "ventricle_parts", Parts: []int{552}, Refused: cropped},
	{Name: "liver_segments", Parts: []int{570}, Refused: cropped},
	{Name: "liver_segments_mr", Parts: []int{576}, Refused: cropped},
	{Name: "liver_lesions", Parts: []int{591}, Refused: cropped},
	{Name: "liver_lesions_mr", Parts: []int{589}, Refused: cropped},
	{Name: "craniofacial_structures", Parts: []int{115}, Refused: cropped},
	{Name: "abdominal_muscles", Parts: []int{952}, Refused: cropped},
	{Name: "teeth", Parts: []int{113}, Refused: cropped},
	{Name: "heartchambers_highres", Parts: []int{301}, Refused: cropped, Licensed: true},
	{Name: "brain_structures", Parts: []int{409}, Refused: cropped, Licensed: true},
	{Name: "coronary_arteries", Parts: []int{509}, Refused: cropped, Licensed: true},
	{Name: "aortic_sinuses", Parts: []int{920}, Refused: cropped, Licensed: true},
}

// first is the task that is taken where nothing else is said and its models are there.
const first = "total"

// choose is the task of a name; of no name "total", or the only one that is there.
func choose(name string, there []Task, folder string) (Task, error) {
	var names []string
	for _, t := range there {
		names = append(names, t.Name)
	}
	want := name
	switch {
	case name == "" && slices.Contains(names, first):
		want = first
	case name == "" && len(names) == 1:
		want = names[0]
	case name == "":
		return Task{}, &ChoiceError{fmt.Sprintf("%s has the models of several tasks, %s", folder,
			safetext.List(names)), names}
	}
	at := slices.Index(names, want)
	if at < 0 {
		if slices.ContainsFunc(tasks, func(t Task) bool { return t.Name == name }) {
			return Task{}, &ChoiceError{fmt.Sprintf("%s has no model of task %s, only of %s", folder, name,
				safetext.List(names)), names}
		}
		return Task{}, &ChoiceError{fmt.Sprintf("there is no task %q of TotalSegmentator: %s has models of %s", name,
			folder, safetext.List(names)), names}
	}
	if t := there[at]; t.Refused == "" {
		return t, nil
	}
	return Task{}, fmt.Errorf("task %s of TotalSegmentator is not done here: %s", want, there[at].Refused)
}

// A ChoiceError says that a task must be chosen, out of Tasks.
type ChoiceError struct {
	text  string
	Tasks []string
}

func (e *ChoiceError) Error() string { return e.text }

// licence says under which terms TotalSegmentator's makers give a task's weights.
func (t Task) licence() string {
	if t.Licensed {
		return "WARNING: TotalSegmentator's makers give the weights of task " + t.Name +
			" for non-commercial use only, against a licence of theirs"
	}
	return fmt.Sprintf("TotalSegmentator's makers give the weights of task %s under the Apache License 2.0",
		strings.TrimSuffix(strings.TrimSuffix(t.Name, "-fast"), "-fastest"))
}
