// Package totalseg predicts with the models of TotalSegmentator as its users have downloaded them:
// the folder nnunet/results, in which a task is one model of nnU-Net or several, each for a part of
// the classes. Scans are prepared, and parts merged, as TotalSegmentator does.
//
// Start at [Open] and [Model.Predict]. What a model itself computes, package nnunet does. Names of
// classes are those of the models' own dataset.json.
//
// It leaves out vertebrae_pp, whose label maps are cleaned up afterwards: it is refused by its
// name.
package totalseg

import (
	"cmp"
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
	Classes []int // of each part that are taken; nil where the task is refused
	Helpers int   // classes after those, which help in training alone
	// Spacing is what scans are resampled to first, along (i, j, k) of RAS axes, in mm. 0: they
	// keep their own voxels.
	Spacing [3]float64
	// Step is how far windows lie apart, as a share of one.
	Step     float64
	AllFolds bool // of which otherwise the first is taken
	Box      *Box // that it looks at; nil: the whole scan
	Body     bool // its label maps are cleaned up as [cleanBody] does
	// Licensed tasks are not free for commercial use.
	Licensed bool
	// Refused says what of it is not done here; "" for nothing.
	Refused string
}

// A Box is what a task looks at alone: the box around organs that another task finds first.
type Box struct {
	Task   string // that finds them
	Organs []string
	Margin float64 // mm on each side
	// Near are organs, too: what is found more than Reach mm from them is taken away. nil: nothing
	// is.
	Near  []string
	Reach float64
}

// fastest is a box around organs of total-fastest, with the margin that all such boxes have.
func fastest(organs ...string) *Box { return &Box{Task: "total-fastest", Organs: organs, Margin: 20} }

// by is the box around organs that another task finds.
func (b *Box) by(task string) *Box {
	b.Task = task
	return b
}

var (
	lungs = []string{"lung_upper_lobe_left", "lung_lower_lobe_left", "lung_upper_lobe_right",
		"lung_middle_lobe_right", "lung_lower_lobe_right"}
	neck = []string{"clavicula_left", "clavicula_right", "vertebrae_C1", "vertebrae_C5", "vertebrae_T1",
		"vertebrae_T4"}
	fine = [3]float64{0.75, 0.75, 1}
)

const cleaned = "its label maps are cleaned up afterwards"

func cube(mm float64) [3]float64 { return [3]float64{mm, mm, mm} }

var tasks = []Task{
	{Name: "total", Parts: []int{291, 292, 293, 294, 295}, Classes: []int{24, 26, 18, 23, 26}, Spacing: cube(1.5),
		Step: 0.8},
	{Name: "total-fast", Parts: []int{297}, Classes: []int{117}, Spacing: cube(3), Step: 0.8},
	{Name: "total-fastest", Parts: []int{298}, Classes: []int{117}, Spacing: cube(6), Step: 0.8},
	{Name: "total_v3", Parts: []int{831, 832, 833, 834, 835}, Classes: []int{24, 26, 18, 23, 26}, Spacing: cube(1.5),
		Step: 0.8},
	{Name: "total_v3-fast", Parts: []int{836}, Classes: []int{117}, Spacing: cube(3), Step: 0.8},
	{Name: "total_v3-fastest", Parts: []int{837}, Classes: []int{117}, Spacing: cube(6), Step: 0.8},
	{Name: "total_mr", Parts: []int{850, 851}, Classes: []int{29, 21}, Spacing: cube(1.5), Step: 0.8},
	{Name: "total_mr-fast", Parts: []int{852}, Classes: []int{50}, Spacing: cube(3), Step: 0.8},
	{Name: "total_mr-fastest", Parts: []int{853}, Classes: []int{50}, Spacing: cube(6), Step: 0.8},
	{Name: "body_mr", Parts: []int{597}, Classes: []int{2}, Spacing: cube(1.5)},
	{Name: "body_mr-fast", Parts: []int{598}, Classes: []int{2}, Spacing: cube(6)},
	{Name: "vertebrae_mr", Parts: []int{756}, Classes: []int{25}, Spacing: cube(1.5)},
	{Name: "breasts", Parts: []int{527}, Classes: []int{1}, Spacing: cube(1.5)},
	{Name: "trunk_cavities", Parts: []int{343}, Classes: []int{4}, Spacing: cube(1.5)},
	{Name: "vertebrae_body", Parts: []int{305}, Classes: []int{2}, Spacing: cube(1.5)},
	{Name: "brain_aneurysm", Parts: []int{615}, Classes: []int{1},
		Spacing: [3]float64{0.390625, 0.390625, 0.5000016391277313}, AllFolds: true},
	{Name: "appendicular_bones", Parts: []int{304}, Classes: []int{11}, Helpers: 4, Spacing: cube(1.5), Licensed: true},
	{Name: "appendicular_bones_mr", Parts: []int{855}, Classes: []int{8}, Spacing: cube(1.5), Licensed: true},
	{Name: "tissue_types", Parts: []int{481}, Classes: []int{3}, Spacing: cube(1.5), Licensed: true},
	{Name: "tissue_types_mr", Parts: []int{925}, Classes: []int{3}, Spacing: cube(1.5), Licensed: true},
	{Name: "tissue_4_types", Parts: []int{485}, Classes: []int{4}, Spacing: cube(1.5), Licensed: true},
	{Name: "face", Parts: []int{303}, Classes: []int{1}, Spacing: cube(1.5), Licensed: true},
	{Name: "face_mr", Parts: []int{856}, Classes: []int{1}, Helpers: 2, Spacing: cube(1.5), Licensed: true},
	{Name: "thigh_shoulder_muscles", Parts: []int{857}, Classes: []int{18}, Spacing: cube(1.5), Licensed: true},
	{Name: "renal_arteries", Parts: []int{710}, Classes: []int{3}, Helpers: 1, Spacing: cube(1.5), Licensed: true},
	{Name: "aorta_annulus", Parts: []int{713}, Classes: []int{2}, Spacing: cube(0.8), AllFolds: true,
		Licensed: true},
	{Name: "aortic_dissection", Parts: []int{716}, Classes: []int{2}, Spacing: cube(0.8), AllFolds: true,
		Licensed: true},
	{Name: "pulmonary_artery_landmarks", Parts: []int{514}, Classes: []int{7},
		Spacing: [3]float64{0.7802734375, 0.7802734375, 1}, AllFolds: true, Licensed: true},

	{Name: "body", Parts: []int{299}, Classes: []int{2}, Spacing: cube(1.5), Body: true},
	{Name: "body-fast", Parts: []int{300}, Classes: []int{2}, Spacing: cube(6), Body: true},
	{Name: "vertebrae_pp", Parts: []int{803}, Refused: cleaned},
	{Name: "lung_vessels", Parts: []int{117}, Classes: []int{4}, Spacing: [3]float64{0.703125, 0.703125, 1},
		Box: fastest(lungs...).by("total-fast")},
	{Name: "lung_vessels_LEGACY", Parts: []int{258}, Classes: []int{2}, Box: fastest(lungs...)},
	{Name: "cerebral_bleed", Parts: []int{150}, Classes: []int{1}, Box: fastest("brain")},
	{Name: "hip_implant", Parts: []int{260}, Classes: []int{1},
		Box: fastest("femur_left", "femur_right", "hip_left", "hip_right")},
	{Name: "pleural_pericard_effusion", Parts: []int{315}, Classes: []int{3}, AllFolds: true, Box: fastest(lungs...)},
	{Name: "liver_vessels", Parts: []int{8}, Classes: []int{2}, Box: fastest("liver")},
	{Name: "head_glands_cavities", Parts: []int{775}, Classes: []int{19}, Spacing: fine, Box: fastest("skull")},
	{Name: "headneck_bones_vessels", Parts: []int{776}, Classes: []int{12}, Spacing: fine, Box: fastest(neck...)},
	{Name: "head_muscles", Parts: []int{777}, Classes: []int{11}, Spacing: fine, Box: fastest("skull")},
	{Name: "headneck_muscles", Parts: []int{778, 779}, Classes: []int{11, 12}, Spacing: fine, Box: fastest(neck...)},
	{Name: "oculomotor_muscles", Parts: []int{351}, Classes: []int{19},
		Spacing: [3]float64{0.47251562774181366, 0.47251562774181366, 0.8500002026557922}, Box: fastest("skull")},
	{Name: "lung_nodules", Parts: []int{913}, Classes: []int{2}, Spacing: cube(1.5), Box: fastest(lungs...)},
	{Name: "kidney_cysts", Parts: []int{789}, Classes: []int{2}, Helpers: 2, Spacing: cube(1.5),
		Box: fastest("kidney_left", "kidney_right", "liver", "spleen", "colon")},
	{Name: "ventricle_parts", Parts: []int{552}, Classes: []int{12},
		Spacing: [3]float64{0.4384765625, 0.4345703125, 1}, Box: fastest("brain")},
	{Name: "liver_segments", Parts: []int{570}, Classes: []int{8},
		Spacing: [3]float64{0.8046879768371582, 0.8046879768371582, 1.5}, Box: fastest("liver")},
	{Name: "liver_segments_mr", Parts: []int{576}, Classes: []int{8},
		Spacing: [3]float64{1.1250001788139343, 1.1875, 3}, Box: fastest("liver").by("total_mr-fast")},
	{Name: "liver_lesions", Parts: []int{591}, Classes: []int{1}, Spacing: fine,
		Box: fastest("liver").by("total-fast")},
	{Name: "liver_lesions_mr", Parts: []int{589}, Classes: []int{1},
		Spacing: [3]float64{0.8603515625, 0.857421875, 1}, Box: fastest("liver").by("total_mr-fast")},
	{Name: "craniofacial_structures", Parts: []int{115}, Classes: []int{7}, Spacing: cube(0.5), Box: fastest("skull")},
	{Name: "abdominal_muscles", Parts: []int{952}, Classes: []int{22}, Spacing: fine,
		Box: fastest("body_trunc").by("body-fast")},
	{Name: "teeth", Parts: []int{113}, Classes: []int{77}, Spacing: cube(0.5),
		Box: &Box{Task: "craniofacial_structures", Organs: []string{"teeth_lower", "teeth_upper"}, Margin: 10}},
	{Name: "heartchambers_highres", Parts: []int{301}, Classes: []int{7}, Licensed: true,
		Box: &Box{Task: "total-fast", Organs: []string{"heart"}, Margin: 20,
			Near: []string{"heart", "aorta", "inferior_vena_cava"}, Reach: 10}},
	{Name: "brain_structures", Parts: []int{409}, Classes: []int{16}, Spacing: [3]float64{0.5, 0.5, 1}, Licensed: true,
		Box: fastest("brain")},
	{Name: "coronary_arteries", Parts: []int{509}, Classes: []int{1}, Spacing: cube(0.7), Licensed: true,
		Box: fastest("heart")},
	{Name: "coronary_arteries_LEGACY", Parts: []int{507}, Classes: []int{1}, Spacing: cube(0.7), Licensed: true,
		Box: fastest("heart")},
	{Name: "aortic_sinuses", Parts: []int{920}, Classes: []int{4}, Spacing: cube(0.7), Licensed: true,
		Box: fastest("heart")},
}

// dataSets are the names of the data sets of all parts after their numbers, as TotalSegmentator
// downloads them. Numbers alone say little: a person's own data sets have them, too.
var dataSets = map[int]string{
	8:   "HepaticVessel",
	113: "ToothFairy3",
	115: "mandible",
	117: "lung_airways_arteries_veins_282subj",
	150: "icb_v0",
	258: "lung_vessels_248subj",
	260: "hip_implant_71subj",
	291: "TotalSegmentator_part1_organs_1559subj",
	292: "TotalSegmentator_part2_vertebrae_1532subj",
	293: "TotalSegmentator_part3_cardiac_1559subj",
	294: "TotalSegmentator_part4_muscles_1559subj",
	295: "TotalSegmentator_part5_ribs_1559subj",
	297: "TotalSegmentator_total_3mm_1559subj",
	298: "TotalSegmentator_total_6mm_1559subj",
	299: "body_1559subj",
	300: "body_6mm_1559subj",
	301: "heart_highres_1559subj",
	303: "face_1559subj",
	304: "appendicular_bones_ext_1559subj",
	305: "vertebrae_discs_1559subj",
	315: "thoraxCT",
	343: "mediastinum_1786subj",
	351: "oculomotor_muscles_18subj",
	409: "neuro_550subj",
	481: "tissue_1559subj",
	485: "tissue_4types_1559subj",
	507: "coronary_arteries_cm_nativ_400subj",
	509: "coronary_arteries_cm_nativ_400subj_SKELETON",
	514: "annulus_pulmonary_70subj",
	527: "breasts_1559subj",
	552: "ventricle_parts_38subj",
	570: "ct_liver_segments",
	576: "mri_liver_segments_120subj",
	589: "ct_mri_liver_lesions_750subj",
	591: "ct_liver_lesions_842subj",
	597: "mri_body_139subj",
	598: "mri_body_6mm_139subj",
	615: "MAXIMUS",
	710: "renal_arteries_127subj",
	713: "annulus_proper_48subj",
	716: "aorta_true_false_lumen_171subj",
	756: "mri_vertebrae_1076subj",
	775: "head_glands_cavities_492subj",
	776: "headneck_bones_vessels_492subj",
	777: "head_muscles_492subj",
	778: "headneck_muscles_part1_492subj",
	779: "headneck_muscles_part2_492subj",
	789: "kidney_cyst_501subj",
	803: "TotalSegmentator_vertebrae_inner_1559subj",
	831: "TotalSegmentator_part1_organs_1830subj",
	832: "TotalSegmentator_part2_vertebrae_1559subj",
	833: "TotalSegmentator_part3_cardiac_1830subj",
	834: "TotalSegmentator_part4_muscles_1830subj",
	835: "TotalSegmentator_part5_ribs_1559subj",
	836: "TotalSegmentator_total_3mm_1559subj",
	837: "TotalSegmentator_total_6mm_1559subj",
	850: "TotalSegMRI_part1_organs_1088subj",
	851: "TotalSegMRI_part2_muscles_1088subj",
	852: "TotalSegMRI_total_3mm_1088subj",
	853: "TotalSegMRI_total_6mm_1088subj",
	855: "TotalSegMRI_appendicular_bones_1088subj",
	856: "TotalSegMRI_face_1088subj",
	857: "TotalSegMRI_thigh_shoulder_1088subj",
	913: "lung_nodules",
	920: "aortic_sinuses_cm_nativ_400subj",
	925: "MRI_tissue_subset_903subj",
	952: "abdominal_muscles_167subj",
}

// folderOf is the name of a data set's folder.
func folderOf(number int) string { return fmt.Sprintf("Dataset%03d_%s", number, dataSets[number]) }

// first is the task that is taken where nothing else is said and its models are there.
const first = "total"

// sameTask are further names of tasks.
var sameTask = map[string]string{"thigh_shoulder_muscles_mr": "thigh_shoulder_muscles",
	"vertebrae_pp_refined": "vertebrae_pp"}

// choose is the task of a name; of no name "total", or the only one that is there.
func choose(name string, there []Task, folder string) (Task, error) {
	var names []string
	for _, t := range there {
		names = append(names, t.Name)
	}
	name = cmp.Or(sameTask[name], name)
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
