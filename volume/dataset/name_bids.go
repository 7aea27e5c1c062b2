package dataset

import (
	"regexp"
	"slices"
	"strings"
)

// This file: what names of BIDS say; see pair_bids.go for the rules.

// bidsName is what a name of BIDS says.
type bidsName struct {
	subject    string   // sub-, ses-, with the folders above all those of BIDS
	run        string   // run-, or a number alone, which people write in its place
	words      []string // that tell contrasts apart, in their order; of labels, those that may
	structure  string   // of labels: what label- or, for a mask, desc- says
	derivative bool     // below derivatives, or sourcedata
	none       string   // why it is neither a scan nor labels
}

var (
	// entities that say how a derivative was made, not what it shows
	bidsMade = words("atlas seg method hemi den scale from to mode")
	// words in the place of the suffix that mark labels, besides those of all names
	bidsLabels = words("msk")
	// suffixes of what is neither a scan nor labels
	bidsNone = map[string]string{
		"probseg":    "probabilities",
		"defacemask": "a mask that hides faces",
		"physio":     "no scan",
		"xfm":        "a transform",
	}
	// folders of BIDS that say nothing of which scan is meant
	bidsFolder = words("rawdata anat ct pet dwi func perf fmap mri spine swi")
	// values of desc- that tell who drew a mask, or how, and not what it shows
	bidsDrawn = words("manual auto automatic expert gt reference ref corrected final draft preproc edited preliminary",
		"consensus mask seg")
	// suffixes of images, as BIDS has them, in small letters
	bidsImages = words(
		"t1w t2w pdw t2starw flair inplanet1 inplanet2 pdt2 angio t2star flash pd t1map t2map t2starmap r1map",
		"r2map r2starmap pdmap mtrmap mtsat unit1 t1rho mwfmap mtvmap chimap s0map m0map mp2rage mpm mts mtr",
		"irt1 vfa mese megre bold cbv sbref phase dwi adc trace fa md pet ct cta mr asl m0scan epi t1 t2 swi",
		"mra cbct",
	)
)

// bidsSubject is a subject in a path.
var bidsSubject = regexp.MustCompile(`sub-[0-9A-Za-z+]+`)

// parseBIDS takes a name and the folders that it lies in apart. It reports whether the name is one
// of BIDS.
func parseBIDS(stem string, folders []string, labels bool) (b *bidsName, areLabels, ok bool) {
	parts := strings.Split(stem, "_")
	if !strings.HasPrefix(parts[0], "sub-") || parts[0] == "sub-" {
		return nil, labels, false
	}
	b = &bidsName{}
	subject, mask, desc := bidsFolders(folders, b), false, ""
	for n, word := range parts {
		entity, value, isEntity := strings.Cut(word, "-")
		lower := foldWord(word)
		switch last := n == len(parts)-1; {
		case isEntity && (entity == "sub" || entity == "ses"):
			subject = append(subject, word)
		case isEntity && entity == "run", n > 0 && strings.Trim(word, "0123456789") == "":
			b.run = strings.TrimPrefix(b.run+"_"+word, "_")
		case isEntity && strings.EqualFold(entity, "label"):
			b.structure, labels = value, true
		case isEntity && strings.EqualFold(entity, "desc"):
			desc = value
		case isEntity && bidsMade[strings.ToLower(entity)]:
			labels = labels || strings.EqualFold(entity, "seg")
		case !isEntity && last && bidsNone[lower] != "":
			b.none = bidsNone[lower]
		case !isEntity && n > 0 && (labelWords[lower] || bidsLabels[lower]):
			labels, mask = true, mask || lower == "mask" || lower == "msk"
		default:
			b.words = append(b.words, word)
		}
	}
	b.subject = strings.Join(subject, "/")
	switch {
	case desc == "":
	case !labels:
		b.words = slices.Insert(b.words, max(0, len(b.words)-1), "desc-"+desc)
	case mask && b.structure == "" && !bidsDrawn[foldWord(desc)]:
		b.structure = desc
	}
	return b, labels, true
}

// bidsFolders leaves out the folders that say what BIDS has in them, and says whether they are
// those of derivatives.
func bidsFolders(folders []string, b *bidsName) (left []string) {
	for n := 0; n < len(folders); n++ {
		switch name := folders[n]; {
		case name == "derivatives":
			b.derivative = true
			if n+1 < len(folders) && !strings.HasPrefix(folders[n+1], "sub-") {
				n++ // the program
			}
		case name == "sourcedata":
			b.derivative = true
		case bidsFolder[strings.ToLower(name)], strings.HasPrefix(name, "sub-"), strings.HasPrefix(name, "ses-"):
		default:
			left = append(left, name)
		}
	}
	return left
}

// contrast is the words that tell contrasts apart, as people name it.
func (b *bidsName) contrast() string { return strings.Join(b.words, "_") }

// scan names a scan of all contrasts.
func (b *bidsName) scan() string {
	name := strings.ReplaceAll(b.subject, "/", "_")
	if b.run != "" {
		name += "_run-" + strings.TrimPrefix(b.run, "run-")
	}
	return name
}

// key names one scan.
func (b *bidsName) key() string {
	return strings.Join(
		slices.DeleteFunc(append([]string{b.subject, b.run}, b.words...), func(s string) bool { return s == "" }),
		"_",
	)
}

// has says whether the contrast has a word; space-T2w is one of T2w.
func (b *bidsName) has(word string) bool {
	if entity, value, _ := strings.Cut(word, "-"); strings.EqualFold(entity, "space") && value != "" && b.has(value) {
		return true
	}
	return slices.ContainsFunc(b.words, func(own string) bool { return strings.EqualFold(own, word) })
}
