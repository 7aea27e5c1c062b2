package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

// This file reads names of BIDS: which scans are of one subject, which contrast each is, and which
// labels are of which. The rules:
//
//   - sub-, ses- and run- name the scan; all other words of a scan's name are its contrast:
//     sub-01_ce-gad_T1w is ce-gad_T1w of sub-01.
//   - Of a subject with several contrasts one must be chosen, or all, or those that are channels: nobody can
//     guess which.
//   - A scan below derivatives or sourcedata is one only where the subject has no other, or where it is chosen.
//   - Labels belong to the scan of the subject whose contrast has all the words that they share with
//     contrasts: sub-01_T2w_seg to the T2w, sub-01_desc-x_dseg to any. space-T2w is such a word.
//   - What else is in the name of a mask says which structure it shows: label-liver_mask,
//     desc-liver_mask, ct_liver. How it was made does not: seg-, atlas-, res-, desc-manual.

// ContrastAll asks for every contrast of a subject.
const ContrastAll = "all"

// readBIDS chooses the contrast of each subject and gives its scan the labels. Scans that pairs
// name are chosen where nobody names a contrast.
func (p *pairing) readBIDS(d *Dataset, pairs []pair, o Options) error {
	p.dropScans(func(c candidate) bool {
		none := c.name.bids != nil && c.name.bids.none != ""
		if none {
			d.note("%s: passed over: %s", c.path, c.name.bids.none)
		}
		return none
	})
	subjects := map[string][]candidate{}
	for _, key := range slices.Sorted(maps.Keys(p.scans)) {
		for _, c := range p.scans[key] {
			if c.name.bids != nil {
				subjects[c.name.bids.subject] = append(subjects[c.name.bids.subject], c)
			}
		}
	}
	if len(subjects) == 0 && o.Contrast != "" && o.Contrast != ContrastAll && len(p.scans) > 0 {
		return fmt.Errorf("contrast %s: no scan here has a name of BIDS, such as sub-01_T1w", o.Contrast)
	}
	for subject, scans := range subjects {
		subjects[subject] = p.bidsMasks(scans)
	}
	all := map[string]bool{} // words of contrasts
	for _, scans := range subjects {
		for _, c := range scans {
			for _, word := range c.name.bids.words {
				all[foldWord(word)] = true
			}
		}
	}
	var chosen map[string][]candidate
	if o.Channels != nil {
		chosen = d.joinContrasts(subjects, o.Channels)
		p.dropScans(func(c candidate) bool { return c.name.bids != nil })
		for _, subject := range slices.Sorted(maps.Keys(chosen)) {
			for _, c := range chosen[subject] {
				p.addJoined(c)
			}
		}
	} else {
		var err error
		if chosen, err = d.chooseContrasts(subjects, pairs, o.Contrast); err != nil {
			return err
		}
		p.dropScans(func(c candidate) bool {
			return c.name.bids != nil &&
				!slices.ContainsFunc(chosen[c.name.bids.subject], func(o candidate) bool { return o.path == c.path })
		})
	}
	if len(subjects) > 0 {
		p.bidsPairs(d, subjects, chosen, all, o)
	}
	return nil
}

// bidsMasks finds the masks among the scans of a subject whose names do not say that they are:
// sub-01_ct_liver beside sub-01_ct. They become labels.
func (p *pairing) bidsMasks(scans []candidate) (left []candidate) {
	for _, c := range scans {
		b := c.name.bids
		if free := len(b.words) > 0 && !bidsImages[foldWord(b.words[len(b.words)-1])]; !free || len(scans) < 2 ||
			c.series != nil ||
			outputs.MatchString(b.contrast()) ||
			!isMask(c.path) {
			left = append(left, c)
			continue
		}
		p.dropScans(func(o candidate) bool { return o.path == c.path })
		p.bidsFound = append(p.bidsFound, bidsFile{c.path, b})
	}
	return left
}

// bidsFile is a file of labels with a name of BIDS.
type bidsFile struct {
	path string
	name *bidsName
}

// chooseContrasts keeps of each subject the scans of the contrast that is wanted. Subjects with
// several and no choice are an error that names them.
func (d *Dataset) chooseContrasts(subjects map[string][]candidate, pairs []pair,
	wanted string) (chosen map[string][]candidate, err error) {
	chosen = map[string][]candidate{}
	paired := map[string]bool{}
	for _, one := range pairs {
		paired[absoluteOf(one.scan)] = true
	}
	left, made := map[string]int{}, []string{}
	counts, several, example := map[string]int{}, 0, ""
	for _, subject := range slices.Sorted(maps.Keys(subjects)) {
		scans := subjects[subject]
		only := func(keep func(candidate) bool) {
			some := slices.DeleteFunc(slices.Clone(scans), func(c candidate) bool { return !keep(c) })
			if len(some) > 0 && len(some) < len(scans) {
				scans = some
			}
		}
		original := func(c candidate) bool { return !c.name.bids.derivative }
		switch {
		case wanted == ContrastAll:
		case wanted != "":
			if scans = withContrast(scans, wanted); len(scans) == 0 {
				d.note("%s: passed over, because it has no contrast %s: %s", filepath.Dir(subjects[subject][0].path),
					wanted, safetext.List(contrastsOf(subjects[subject])))
			}
			if len(contrastsOf(scans)) == 1 {
				only(original) // a copy below derivatives
			}
		default:
			only(func(c candidate) bool { return paired[absoluteOf(c.path)] })
			before := scans
			if only(original); len(scans) < len(before) {
				for _, c := range before {
					if c.name.bids.derivative {
						made = append(made, c.path)
					}
				}
			}
		}
		contrasts := contrastsOf(scans)
		if len(contrasts) > 1 && wanted != ContrastAll {
			if several++; example == "" {
				example = fmt.Sprintf("%s has %d", filepath.Dir(scans[0].path), len(contrasts))
			}
		}
		for _, contrast := range contrasts {
			counts[contrast]++
		}
		for _, contrast := range contrastsOf(subjects[subject]) {
			if !slices.Contains(contrasts, contrast) && len(scans) > 0 {
				left[contrast]++
			}
		}
		chosen[subject] = scans
	}
	listed := counted(counts)
	switch {
	case several > 0 && wanted != "":
		return nil, fmt.Errorf("contrast %s is not one of a subject's: %s, in all %s. Name one of them whole", wanted,
			example, safetext.List(listed))
	case several > 0:
		return nil, fmt.Errorf(
			"subjects have several contrasts: %s, in all %s. Choose one with --contrast, "+
				"such as --contrast %s; --contrast all takes each as a case, --channels %s all as channels of one",
			example,
			safetext.List(listed),
			slices.Sorted(maps.Keys(counts))[0],
			strings.Join(slices.Sorted(maps.Keys(counts)), ","),
		)
	case wanted != "" && wanted != ContrastAll && len(counts) == 0 && len(subjects) > 0:
		for _, scans := range subjects {
			for _, contrast := range contrastsOf(scans) {
				counts[contrast]++
			}
		}
		return nil, fmt.Errorf("no subject has a contrast %s: there are %s", wanted,
			safetext.List(slices.Sorted(maps.Keys(counts))))
	case wanted == "" && len(counts) > 1:
		d.note("contrasts differ from subject to subject: %s; --contrast chooses one", safetext.List(listed))
	}
	if len(made) > 0 {
		d.note(
			"passed over %s below derivatives or sourcedata, "+
				"of subjects with scans of their own: %s; --contrast chooses them",
			numbers.Count(len(made), "scan"),
			safetext.List(made),
		)
	} else if len(left) > 0 {
		d.note("contrast %s is taken; passed over those of the same subjects: %s",
			safetext.List(listed), safetext.List(counted(left)))
	}
	return chosen, nil
}

// counted lists contrasts with the number of subjects that have each.
func counted(contrasts map[string]int) (list []string) {
	for _, contrast := range slices.Sorted(maps.Keys(contrasts)) {
		list = append(list, fmt.Sprintf("%s (%d)", contrast, contrasts[contrast]))
	}
	return list
}

// contrastsOf lists the contrasts of scans, each once.
func contrastsOf(scans []candidate) []string {
	all := map[string]bool{}
	for _, c := range scans {
		name := c.name.bids.contrast()
		name = cmp.Or(name, "(none)")
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// withContrast keeps the scans of a contrast: those that are called so, or else those that have all
// its words.
func withContrast(scans []candidate, wanted string) []candidate {
	called := slices.DeleteFunc(slices.Clone(scans),
		func(c candidate) bool { return !strings.EqualFold(c.name.bids.contrast(), wanted) })
	if len(called) > 0 {
		return called
	}
	return slices.DeleteFunc(slices.Clone(scans), func(c candidate) bool {
		return slices.ContainsFunc(strings.Split(wanted, "_"), func(word string) bool { return !c.name.bids.has(word) })
	})
}

// joinContrasts makes one scan of the contrasts of each subject and run that are channels.
func (d *Dataset) joinContrasts(subjects map[string][]candidate, names []string) (chosen map[string][]candidate) {
	chosen = map[string][]candidate{}
	left := map[string]int{}
	for _, subject := range slices.Sorted(maps.Keys(subjects)) {
		runs := map[string][]candidate{}
		for _, c := range subjects[subject] {
			runs[c.name.bids.run] = append(runs[c.name.bids.run], c)
		}
		for _, run := range slices.Sorted(maps.Keys(runs)) {
			of := make([][]candidate, len(names))
			for n, name := range names {
				of[n] = withContrast(runs[run], name)
				originals := slices.DeleteFunc(slices.Clone(of[n]),
					func(c candidate) bool { return c.name.bids.derivative })
				if len(originals) > 0 {
					of[n] = originals
				}
			}
			taken := slices.Concat(of...)
			for _, c := range runs[run] {
				if !slices.ContainsFunc(taken, func(o candidate) bool { return o.path == c.path }) {
					left[c.name.bids.contrast()]++
				}
			}
			if len(taken) == 0 {
				if len(runs[run]) == 1 { // which may be a file of several volumes
					chosen[subject] = append(chosen[subject], runs[run][0])
				}
				continue
			}
			own := *taken[0].name.bids
			own.words = nil
			for _, c := range taken {
				own.words = append(own.words, c.name.bids.words...)
			}
			name := taken[0].name
			name.bids, name.id = &own, own.scan()
			name.key = "channels of " + name.id
			chosen[subject] = append(chosen[subject], joinedOf(of, names, name))
		}
	}
	if len(left) > 0 {
		d.note("channels %s are taken of each subject; passed over those of the same subjects: %s",
			strings.Join(names, ", "), safetext.List(counted(left)))
	}
	return chosen
}

// bidsPairs gives the chosen scans their labels. All are words of contrasts.
func (p *pairing) bidsPairs(d *Dataset, subjects, chosen map[string][]candidate, all map[string]bool, o Options) {
	var files []bidsFile
	for key, paths := range p.labels {
		var others []string
		for _, path := range paths {
			if b := p.bidsOf[path]; b != nil {
				files = append(files, bidsFile{path, b})
			} else {
				others = append(others, path)
			}
		}
		if p.labels[key] = others; others == nil {
			delete(p.labels, key)
		}
	}
	files = append(files, p.bidsFound...)
	slices.SortFunc(files, func(a, b bidsFile) int { return strings.Compare(a.path, b.path) })
	for _, f := range files {
		b := f.name
		if b.none != "" {
			d.leaveOut(f.path, "%s: passed over: %s", f.path, b.none)
			continue
		}
		contrast, structure := []string{}, []string{}
		for _, word := range b.words {
			entity, value, isEntity := strings.Cut(word, "-")
			switch {
			case all[foldWord(word)] || bidsImages[foldWord(word)]:
				contrast = append(contrast, word)
			case isEntity && strings.EqualFold(entity, "space"):
				if all[foldWord(value)] || bidsImages[foldWord(value)] {
					contrast = append(contrast, value)
				}
			case !isEntity:
				structure = append(structure, word)
			}
		}
		if b.structure != "" {
			structure = []string{b.structure}
		}
		fits := func(scans []candidate) (left []candidate) {
			for _, c := range scans {
				scan := c.name.bids
				if (b.run == "" || scan.run == "" || b.run == scan.run) &&
					!slices.ContainsFunc(contrast, func(word string) bool { return !scan.has(word) }) {
					left = append(left, c)
				}
			}
			return left
		}
		switch scans := fits(chosen[b.subject]); {
		case len(scans) == 1 && len(structure) > 0 && !maybePeople(strings.Join(structure, "_")):
			key := scans[0].name.key
			p.parts[key] = append(p.parts[key], Mask{Path: f.path, Name: strings.Join(structure, "_")})
		case len(scans) == 1:
			p.labels[scans[0].name.key] = append(p.labels[scans[0].name.key], f.path)
		case len(scans) > 1 && o.everyContrast:
			for _, scan := range scans {
				p.labels[scan.name.key] = append(p.labels[scan.name.key], f.path)
			}
		case len(scans) > 1:
			d.leaveOut(f.path,
				"%s: not used, because %d scans could be meant, such as %s and %s: say with --pairs which is", f.path,
				len(scans), scans[0].path, scans[1].path)
		case len(fits(subjects[b.subject])) > 0:
			d.leaveOut(f.path, "%s: passed over: labels of a contrast that is not taken", f.path)
		default:
			d.withoutScan(f.path)
		}
	}
}
