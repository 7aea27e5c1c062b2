package safetext

import (
	"testing"

	"golang.org/x/text/unicode/norm"
)

// Names of one line are one structure's, and those of different lines are not. The forms of Unicode
// are written as escapes.
func TestFold(t *testing.T) {
	groups := [][]string{
		{"Brain Stem", "brain-stem", "brainstem", "BrainStem", " brain  stem ", "Brain_Stem", "brain.stem",
			"Brain (stem)", "brain\u00adstem", "brain\u2013stem"},
		{"kidney_left", "Kidney left", "KIDNEY, LEFT"},
		{"left kidney"},
		// numbers
		{"lesion_1_1", "lesion 1.1", "Lesion-1-1", "lesion1_1"},
		{"lesion_11", "Lesion 11", "lesion11"},
		{"PTV 50.4", "PTV_50_4", "PTV 50,4", "PTV50.4"},
		{"PTV 504", "PTV_504"},
		{"PTV 50.40"},
		{"PTV 50"},
		{"GTV 1 2 3", "GTV_1_2_3"},
		{"GTV 12 3"},
		{"GTV 1 23"},
		{"T10²", "T10 2"},
		{"T102"},
		{"PTV+5", "ptv +5"},
		{"PTV-5", "ptv 5", "PTV5"},
		{"D<50"},
		{"D>50"},
		{"D50", "D 50"},
		{"V 95%"},
		{"V 95"},
		{"lesion ①", "lesion 1"},
		{"lesion ②"},
		// German
		{"Größe der Läsion", "Gro\u0308\u00dfe der La\u0308sion", "GRÖSSE DER LÄSION", "größe-der-läsion"},
		{"Grosse der Lasion"},
		{"Groesse der Laesion"},
		{"Großhirn", "GROSSHIRN", "GRO\u1e9eHIRN", "Groß-Hirn"},
		{"Niere links", "NIERE LINKS"},
		{"Niere rechts"},
		// French, Turkish
		{"Œil gauche", "œil gauche"},
		{"Oeil gauche"},
		// Hindi: right and left, and words that differ in vowel signs alone
		{"दायाँ गुर्दा", "दायाँ_गुर्दा", "दायाँगुर्दा"},
		{"बायाँ गुर्दा"},
		{"दिल"},
		{"दल"},
		{"दाल"},
		{"घाव क\u093c", "घाव \u0958"}, // a dot below, in both forms
		{"घाव क"},
		// Japanese: voiced sounds in both forms, full and half width
		{"左肺", "左_肺"},
		{"右肺"},
		{"がん", "か\u3099ん"},
		{"かん"},
		{"カンゾウ", "\uff76\uff9d\uff7f\uff9e\uff73", "カンソ\u3099ウ"},
		{"カンソウ"},
		{"肝臓１", "肝臓1", "肝臓 1"},
		{"肝臓11", "肝臓１１"},
		{"肝臓１_１", "肝臓1.1"},
		// Arabic and Persian: a joiner that cannot be seen
		{"کلیه\u200cها", "کلیهها"},
		// what is no text
		{"Gr\xf6sse"},
		{"Gr\xe4sse"},
	}
	of := map[string]int{}
	for n, names := range groups {
		want := Fold(names[0])
		for _, name := range names {
			for _, form := range []norm.Form{norm.NFC, norm.NFD} {
				got := Fold(form.String(name))
				if got != want {
					t.Errorf("%q folds to %q, and %q to %q", name, got, names[0], want)
				}
				if again := Fold(got); again != got {
					t.Errorf("%q folds to %q, and that to %q", name, got, again)
				}
			}
		}
		if other, there := of[want]; there {
			t.Errorf("%q and %q both fold to %q", names[0], groups[other][0], want)
		}
		of[want] = n
	}
}

func TestFoldCase(t *testing.T) {
	for _, same := range [][2]string{{"Pa\u0308tient_1", "P\u00e4tient_1"}, {"CASE-1", "case-1"},
		{"CASE\u0301", "cas\u00e9"}} {
		if a, b := FoldCase(same[0]), FoldCase(same[1]); a != b {
			t.Errorf("%q folds to %q, and %q to %q", same[0], a, same[1], b)
		}
	}
	for _, other := range [][2]string{{"case_1", "case-1"}, {"case_1_1", "case_11"}, {"Patient", "P\u00e4tient"}} {
		if FoldCase(other[0]) == FoldCase(other[1]) {
			t.Errorf("%q and %q are one name", other[0], other[1])
		}
	}
}

// What is folded stays as it is when it is folded again: so may names and what was folded be
// compared.
func FuzzFold(f *testing.F) {
	for _, name := range []string{"PTV 50.4", "10²", "e´1", "Größe", "दायाँ", "\uff76\uff9e", "1\u0308 1",
		"\xf6", "\u1fb7", "\u13e2"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if once := Fold(name); Fold(once) != once {
			t.Errorf("%q folds to %q, and that to %q", name, once, Fold(once))
		}
		if a, b := Fold(norm.NFC.String(Name(name))), Fold(norm.NFD.String(Name(name))); a != b {
			t.Errorf("%q folds to %q as NFC and %q as NFD", name, a, b)
		}
	})
}
