package dicom

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: what the values of a series are. CT scanners also make maps of electron density, of
// iodine, of atomic numbers, with the geometry and the modality of a scan. What says so, the most
// telling first: RescaleType, Units (of PET), RealWorldValueMappingSequence. An ImageType that
// names a map goes before a RescaleType of HU.

const hounsfield = "HU"

// rescaleUnits are the defined terms of RescaleType (PS3.3 C.11.1.1.2) and what others write in
// their place, in capitals and without spaces. Unspecified units are none.
var rescaleUnits = map[string]string{
	"US": "", "HU": hounsfield, "HOUNSFIELD": hounsfield, "HOUNSFIELDUNIT": hounsfield, "HOUNSFIELDUNITS": hounsfield,
	"[HNSF'U]": hounsfield,
	"OD":       "optical density", "MGML": "mg/ml", "Z_EFF": "effective atomic number",
	"ED":     "electron density (10^23/ml)",
	"EDW":    "electron density (of water's)",
	"HU_MOD": "modified HU", "PCT": "%",
}

// petUnits are the defined terms of Units (PS3.3 C.8.9.1.1.3).
var petUnits = map[string]string{
	"CNTS": "counts", "NONE": "", "CM2": "cm2", "CM2ML": "cm2/ml", "PCNT": "%", "CPS": "counts/s", "BQML": "Bq/ml",
	"MGMINML": "mg/min/ml", "UMOLMINML": "umol/min/ml",
	"MLMING": "ml/min/g", "MLG": "ml/g", "1CM": "1/cm", "UMOLML": "umol/ml", "PROPCNTS": "proportional to counts",
	"PROPCPS": "proportional to counts/s",
	"MLMINML": "ml/min/ml", "MLML": "ml/ml", "GML": "g/ml", "STDDEV": "standard deviations",
}

// materialMaps are words in an ImageType that say that a CT image is a map of something else than
// attenuation: the defined terms of multi-energy CT (PS3.3 C.8.2.1.1.1) and those that scanners
// write. Each is as mapIn compares it.
var materialMaps = []struct{ word, what string }{
	{"EFF_ATOMIC_NUM", "effective atomic number"}, {"ATOMIC_NUMBER", "effective atomic number"},
	{"Z_EFF", "effective atomic number"}, {"ZEFF", "effective atomic number"},
	{"EFFECTIVE_Z", "effective atomic number"}, {"EFF_Z", "effective atomic number"},
	{"Z_EFFECTIVE", "effective atomic number"}, {"Z_MAP", "effective atomic number"},
	{"RHO_Z", "effective atomic number"},
	{"ELECTRON_DENSITY", "electron density"}, {"E_DENSITY", "electron density"}, {"RHO_E", "electron density"},
	{"EDW", "electron density"}, {"MASS_DENSITY", "mass density"},
	{"MAT_SPECIFIC", "one material"}, {"MAT_FRACTIONAL", "the share of a material"},
	{"MAT_VALUE_BASED", "the values of a material"}, {"MATERIAL_DENSITY", "one material"},
	{"IODINE", "iodine"}, {"IODINE_MAP", "iodine"}, {"IODINE_DENSITY", "iodine"}, {"IODINE_NO_WATER", "iodine"},
	{"IODINE_WATER", "iodine"}, {"CALCIUM_MAP", "calcium"}, {"URIC_ACID", "uric acid"}, {"GADOLINIUM", "gadolinium"},
	{"PBV", "perfused blood volume"}, {"CBF", "blood flow"}, {"CBV", "blood volume"}, {"MTT", "transit times"},
	{"TTP", "times to the peak"}, {"TTD", "times to drain"}, {"TMAX", "times to the peak"},
}

// mapIn says what a CT image is a map of, by its ImageType, and the word for it; "" for none. The
// first two values say how the image was made; they have terms of their own.
func mapIn(imageType []string) (what, word string) {
	for _, value := range imageType[min(2, len(imageType)):] {
		parts := strings.FieldsFunc(strings.ToUpper(value), func(r rune) bool { return r < 'A' || r > 'Z' })
		whole := "_" + strings.Join(parts, "_") + "_"
		if virtualWithout.MatchString(whole) {
			continue
		}
		for _, m := range materialMaps {
			if strings.Contains(whole, "_"+m.word+"_") {
				return m.what, value
			}
		}
	}
	return "", ""
}

// virtualWithout are words for images from which a material was taken away: they are in HU.
var virtualWithout = regexp.MustCompile(
	"_(NO|WITHOUT|MINUS|NON)_IODINE_|_IODINE_(REMOVED|SUPPRESSED|SUPPRESSION|SUBTRACTED)_")

// units finds what the values of a series are, and notes where they are none of a CT.
func (s *Series) units() {
	said := "" // by what
	for n := range s.stack.Slices {
		info := &s.stack.Slices[n].Info
		s.RescaleType = cmp.Or(s.RescaleType, element.Printable(info.Key(tag.RescaleType)))
		if unit, by := unitOf(s.Modality, info); unit != "" && (s.Unit == "" || s.Unit == hounsfield) {
			s.Unit, said = unit, by
		}
	}
	if suv := s.stack.Slices[0].Image.SUV; suv != "" && s.Modality == "PT" {
		s.Unit = strings.TrimSpace(fmt.Sprintf("%s (SUV by %s)", s.Unit, element.CodeString(suv)))
	}
	of := ""
	if s.Unit != "" {
		of = " in " + s.Unit
	}
	switch {
	case s.Modality == "PT":
		s.noCT = fmt.Sprintf("a PET%s, no CT", of)
		s.doubt("%s", s.noCT)
	case s.Modality == "NM":
		s.doubt("nuclear medicine%s, no CT", of)
	case s.Modality == "CT" && !s.InHU():
		s.doubt("its values are no Hounsfield units, but %s, by its %s", s.Unit, said)
	}
}

// unitOf is what the values of a slice are, and by which elements; "" where nothing says it.
func unitOf(modality string, info *stack.Info) (unit, by string) {
	what, word := "", ""
	if modality == "CT" {
		if what, word = mapIn(info.ImageType); what != "" {
			what, word = "a map of "+what, fmt.Sprintf("%s (%s)", tag.ImageType, element.Printable(word))
		}
	}
	for _, said := range []struct {
		tag   tag.Tag
		text  string
		known map[string]string
	}{
		{tag.RescaleType, info.Key(tag.RescaleType), rescaleUnits},
		{tag.Units, info.Key(tag.Units), petUnits},
		{tag.RealWorldValueMappingSequence, info.RealWorld, rescaleUnits},
	} {
		texts := strings.Split(said.text, `\`)
		if slices.ContainsFunc(texts, func(text string) bool { return said.known[folded(text)] == hounsfield }) {
			if modality == "CT" && what == "" {
				return hounsfield, said.tag.String()
			}
			continue // what else says that these are no such values is right
		}
		unit, known := said.known[folded(texts[0])]
		if !known {
			unit = element.Printable(texts[0])
		}
		if unit != "" {
			by = fmt.Sprintf("%s (%s)", said.tag, element.Printable(texts[0]))
			if what != "" {
				by += " and " + word
			}
			return unit, by
		}
	}
	return what, word
}

// folded is a term without what spellings differ in.
func folded(text string) string { return strings.ToUpper(strings.ReplaceAll(text, " ", "")) }

// InHU says whether the values are Hounsfield units, as far as anything says: those of a CT that
// does not name another unit.
func (s *Series) InHU() bool { return s.Modality == "CT" && (s.Unit == "" || s.Unit == hounsfield) }
