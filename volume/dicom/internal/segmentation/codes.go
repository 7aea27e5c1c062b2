package segmentation

import (
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: the codes that tell computers what a segment shows: SNOMED CT's, as DICOM uses them
// (PS3.16 CID 7150 and those below it).

// Code is an entry of a terminology.
type Code struct{ Value, scheme, meaning string }

func (c Code) encode() *element.Encoder {
	e := &element.Encoder{}
	e.Text(tag.CodeValue, "SH", c.Value)
	e.Text(tag.CodingSchemeDesignator, "SH", c.scheme)
	e.Text(tag.CodeMeaning, "LO", c.meaning)
	return e
}

// learned is the family of algorithms that a network is of (PS3.16 CID 7162).
var learned = Code{"123110", "DCM", "Artificial Intelligence"}

var (
	anatomical = Code{"91723000", "SCT", "Anatomical Structure"}
	abnormal   = Code{"49755003", "SCT", "Morphologically Abnormal Structure"}
	tissue     = Code{"85756007", "SCT", "Tissue"}
	left       = Code{"7771000", "SCT", "Left"}
	right      = Code{"24028007", "SCT", "Right"}
)

// segmentCodes say what a segment is: its category, what it is, and on which side of the body, if
// on one.
type segmentCodes struct{ Category, Property, Side Code }

// CodesOf looks a label's name up: kidney_left, Left kidney, liver tumour. A name that is not
// known is coded as tissue.
func CodesOf(name string) segmentCodes {
	words := strings.FieldsFunc(strings.ToLower(name),
		func(r rune) bool { return r < 'a' && (r < '0' || r > '9') || r > 'z' && r < 128 })
	find := func(table map[string]Code, words []string) (Code, bool) {
		text := strings.Join(words, " ")
		if other := Synonyms[text]; other != "" {
			text = other
		}
		c, ok := table[text]
		return c, ok
	}
	if len(words) == 2 && (words[0] == "vertebrae" || words[0] == "vertebra") { // vertebrae_L1
		words[0], words[1] = words[1], "vertebra"
	}
	if c, ok := find(Structures, words); ok { // left ventricle
		return segmentCodes{Category: anatomical, Property: c}
	}
	if len(words) > 0 {
		// of an organ that is not said here
		if c, ok := find(Abnormalities, words[len(words)-1:]); ok {
			return segmentCodes{Category: abnormal, Property: c}
		}
	}
	sides := map[string]Code{"left": left, "right": right, "l": left, "r": right}
	for at, word := range words {
		if side, known := sides[word]; known && (at == 0 || at == len(words)-1) {
			if c, ok := find(Structures, slices.Delete(slices.Clone(words), at, at+1)); ok {
				return segmentCodes{Category: anatomical, Property: c, Side: side}
			}
		}
	}
	return segmentCodes{Category: tissue, Property: tissue}
}

// IsKnown says whether a label of that name has a code of its own.
func IsKnown(name string) bool { return CodesOf(name).Property != tissue }

// Synonyms are other names of structures.
var Synonyms = map[string]string{
	"adrenal": "adrenal gland", "brainstem": "brain stem", "cancer": "neoplasm", "cord": "spinal cord",
	"spinalcord": "spinal cord", "eyes": "eye", "grey matter": "gray matter",
	"kidneys": "kidney", "lungs": "lung", "oedema": "edema", "oesophagus": "esophagus", "parotid": "parotid gland",
	"pituitary gland": "pituitary",
	"small bowel":     "small intestine", "submandibular": "submandibular gland", "thyroid gland": "thyroid",
	"tumor": "neoplasm", "tumors": "neoplasm", "tumour": "neoplasm", "tumours": "neoplasm",
	"urinary bladder": "bladder", "lesions": "lesion", "cysts": "cyst",
	"lung upper lobe": "upper lobe of lung", "lung lower lobe": "lower lobe of lung", "gall bladder": "gallbladder",
	"vertebrae": "vertebra",
}

var Structures = map[string]Code{
	"adrenal gland":              {"23451007", "SCT", "Adrenal gland"},
	"aorta":                      {"15825003", "SCT", "Aorta"},
	"appendix":                   {"66754008", "SCT", "Appendix"},
	"bile duct":                  {"28273000", "SCT", "Bile duct"},
	"bladder":                    {"89837001", "SCT", "Bladder"},
	"brachiocephalic vein":       {"8887007", "SCT", "Brachiocephalic vein"},
	"brain":                      {"12738006", "SCT", "Brain"},
	"brain stem":                 {"119238007", "SCT", "Brain stem"},
	"breast":                     {"76752008", "SCT", "Breast"},
	"cecum":                      {"32713005", "SCT", "Cecum"},
	"cerebellum":                 {"113305005", "SCT", "Cerebellum"},
	"clavicle":                   {"51299004", "SCT", "Clavicle"},
	"colon":                      {"71854001", "SCT", "Colon"},
	"common carotid artery":      {"32062004", "SCT", "Common carotid artery"},
	"common iliac artery":        {"73634005", "SCT", "Common iliac artery"},
	"common iliac vein":          {"46027005", "SCT", "Common iliac vein"},
	"costal cartilage":           {"50016007", "SCT", "Costal cartilage"},
	"duodenum":                   {"38848004", "SCT", "Duodenum"},
	"esophagus":                  {"32849002", "SCT", "Esophagus"},
	"eye":                        {"81745001", "SCT", "Eye"},
	"eyeball":                    {"79652003", "SCT", "Eyeball"},
	"face":                       {"89545001", "SCT", "Face"},
	"femur":                      {"71341001", "SCT", "Femur"},
	"gallbladder":                {"28231008", "SCT", "Gallbladder"},
	"gray matter":                {"389081007", "SCT", "Gray matter"},
	"heart":                      {"80891009", "SCT", "Heart"},
	"hepatic vein":               {"8993003", "SCT", "Hepatic vein"},
	"hip":                        {"29836001", "SCT", "Hip"},
	"hippocampus":                {"5366008", "SCT", "Hippocampus"},
	"humerus":                    {"85050009", "SCT", "Humerus"},
	"iliac artery":               {"10293006", "SCT", "Iliac artery"},
	"iliac vein":                 {"244411005", "SCT", "Iliac vein"},
	"ileum":                      {"34516001", "SCT", "Ileum"},
	"inferior vena cava":         {"64131007", "SCT", "Inferior vena cava"},
	"jejunum":                    {"21306003", "SCT", "Jejunum"},
	"kidney":                     {"64033007", "SCT", "Kidney"},
	"lacrimal gland":             {"13561001", "SCT", "Lacrimal gland"},
	"large intestine":            {"14742008", "SCT", "Large intestine"},
	"larynx":                     {"4596009", "SCT", "Larynx"},
	"lateral ventricle":          {"66720007", "SCT", "Lateral ventricle"},
	"left atrium":                {"82471001", "SCT", "Left atrium"},
	"left ventricle":             {"87878005", "SCT", "Left ventricle"},
	"lens":                       {"78076003", "SCT", "Lens"},
	"liver":                      {"10200004", "SCT", "Liver"},
	"lower lobe of lung":         {"90572001", "SCT", "Lower lobe of lung"},
	"lung":                       {"39607008", "SCT", "Lung"},
	"lymph node":                 {"59441001", "SCT", "Lymph node"},
	"mandible":                   {"91609006", "SCT", "Mandible"},
	"omentum":                    {"27398004", "SCT", "Omentum"},
	"optic chiasm":               {"244453006", "SCT", "Optic chiasm"},
	"optic nerve":                {"18234004", "SCT", "Optic nerve"},
	"oral cavity":                {"74262004", "SCT", "Oral cavity"},
	"ovary":                      {"15497006", "SCT", "Ovary"},
	"pancreas":                   {"15776009", "SCT", "Pancreas"},
	"pancreatic duct":            {"69930009", "SCT", "Pancreatic duct"},
	"parotid gland":              {"45289007", "SCT", "Parotid gland"},
	"pituitary":                  {"56329008", "SCT", "Pituitary"},
	"portal vein":                {"32764006", "SCT", "Portal vein"},
	"prostate":                   {"41216001", "SCT", "Prostate"},
	"pulmonary artery":           {"81040000", "SCT", "Pulmonary artery"},
	"pulmonary vein":             {"122972007", "SCT", "Pulmonary vein"},
	"rectum":                     {"34402009", "SCT", "Rectum"},
	"rib":                        {"113197003", "SCT", "Rib"},
	"right atrium":               {"73829009", "SCT", "Right atrium"},
	"right ventricle":            {"53085002", "SCT", "Right ventricle"},
	"sacrum":                     {"54735007", "SCT", "Sacrum"},
	"scapula":                    {"79601000", "SCT", "Scapula"},
	"seminal vesicle":            {"64739004", "SCT", "Seminal vesicle"},
	"sigmoid colon":              {"60184004", "SCT", "Sigmoid colon"},
	"skin":                       {"39937001", "SCT", "Skin"},
	"skull":                      {"89546000", "SCT", "Skull"},
	"small intestine":            {"30315005", "SCT", "Small intestine"},
	"spinal cord":                {"2748008", "SCT", "Spinal cord"},
	"spleen":                     {"78961009", "SCT", "Spleen"},
	"splenic vein":               {"35819009", "SCT", "Splenic vein"},
	"sternum":                    {"56873002", "SCT", "Sternum"},
	"stomach":                    {"69695003", "SCT", "Stomach"},
	"subclavian artery":          {"36765005", "SCT", "Subclavian artery"},
	"submandibular gland":        {"54019009", "SCT", "Submandibular gland"},
	"superior mesenteric artery": {"42258001", "SCT", "Superior mesenteric artery"},
	"superior vena cava":         {"48345005", "SCT", "Superior vena cava"},
	"temporal lobe":              {"78277001", "SCT", "Temporal lobe"},
	"testis":                     {"40689003", "SCT", "Testis"},
	"thyroid":                    {"69748006", "SCT", "Thyroid"},
	"tongue":                     {"21974007", "SCT", "Tongue"},
	"tooth":                      {"38199008", "SCT", "Tooth"},
	"trachea":                    {"44567001", "SCT", "Trachea"},
	"upper lobe of lung":         {"45653009", "SCT", "Upper lobe of lung"},
	"uterus":                     {"35039007", "SCT", "Uterus"},
	"vertebra":                   {"51282000", "SCT", "Vertebra"},
	"white matter":               {"389080008", "SCT", "White matter"},

	"c1 vertebra":  {"14806007", "SCT", "C1 vertebra"},
	"c2 vertebra":  {"39976000", "SCT", "C2 vertebra"},
	"c3 vertebra":  {"113205007", "SCT", "C3 vertebra"},
	"c4 vertebra":  {"5329002", "SCT", "C4 vertebra"},
	"c5 vertebra":  {"36978003", "SCT", "C5 vertebra"},
	"c6 vertebra":  {"36054005", "SCT", "C6 vertebra"},
	"c7 vertebra":  {"87391001", "SCT", "C7 vertebra"},
	"t1 vertebra":  {"64864005", "SCT", "T1 vertebra"},
	"t2 vertebra":  {"53733008", "SCT", "T2 vertebra"},
	"t3 vertebra":  {"1626008", "SCT", "T3 vertebra"},
	"t4 vertebra":  {"73071006", "SCT", "T4 vertebra"},
	"t5 vertebra":  {"56401006", "SCT", "T5 vertebra"},
	"t6 vertebra":  {"45296009", "SCT", "T6 vertebra"},
	"t7 vertebra":  {"62487009", "SCT", "T7 vertebra"},
	"t8 vertebra":  {"11068009", "SCT", "T8 vertebra"},
	"t9 vertebra":  {"82687006", "SCT", "T9 vertebra"},
	"t10 vertebra": {"7610001", "SCT", "T10 vertebra"},
	"t11 vertebra": {"12989004", "SCT", "T11 vertebra"},
	"t12 vertebra": {"23215003", "SCT", "T12 vertebra"},
	"l1 vertebra":  {"66794005", "SCT", "L1 vertebra"},
	"l2 vertebra":  {"14293000", "SCT", "L2 vertebra"},
	"l3 vertebra":  {"36470004", "SCT", "L3 vertebra"},
	"l4 vertebra":  {"11994002", "SCT", "L4 vertebra"},
	"l5 vertebra":  {"49668003", "SCT", "L5 vertebra"},
}

var Abnormalities = map[string]Code{
	"cyst":       {"367643001", "SCT", "Cyst"},
	"edema":      {"79654002", "SCT", "Edema"},
	"hematoma":   {"35566002", "SCT", "Hematoma"},
	"hemorrhage": {"50960005", "SCT", "Hemorrhage"},
	"lesion":     {"52988006", "SCT", "Lesion"},
	"mass":       {"4147007", "SCT", "Mass"},
	"necrosis":   {"6574001", "SCT", "Necrosis"},
	"neoplasm":   {"108369006", "SCT", "Neoplasm"},
	"nodule":     {"27925004", "SCT", "Nodule"},
}
