package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: what kind of scan a case is. The header of a DICOM series says so, and dataset.json,
// and the suffix of a file of BIDS. Names of other files say something, which the values may
// contradict; and of what is left, the values alone tell whether it may be in Hounsfield units.

// A Modality is what a case is, in the words of DICOM (CT, MR, PT, ...), and what says so. Both are
// empty where nobody does.
type Modality struct {
	Name, By string
	// Stated says that a header, dataset.json or a name of BIDS does, and not some file's name.
	Stated bool
}

// modalityWords are what names and dataset.json call the modalities.
var modalityWords = map[string]map[string]bool{
	volume.ModalityCT: words("ct cbct ncct cect cta ctres"),
	volume.ModalityMR: words("mr mri mra mprage mp2rage t1 t1w t1wi t1n t1c t1ce t1gd t1post t2 t2w t2wi t2f t2star t2starw flair pd pdw adc dwi swi dce lge tof"),
	volume.ModalityPT: words("pt pet suv fdg"),
	"US":              words("us ultrasound"),
}

// nameWords are the words of the above that say the same in the name of a file. Others mean another
// thing there, too: pt a patient, mr a medical record, t1 the first of several points in time.
var nameWords = words("ct cbct ctres mri mra mprage mp2rage t1w t1ce t1gd t2w t2star t2starw flair pdw adc dwi pet suv")

// bidsSuffixes are how names of BIDS end: the specification's suffixes of images of the brain, in
// lower case.
var bidsSuffixes = map[string]map[string]bool{
	volume.ModalityMR: words("t1w t2w flair pdw t2star t2starw pdt2 inplanet1 inplanet2 angio unit1 mp2rage megre bold sbref dwi epi asl m0scan cbv phase magnitude"),
	volume.ModalityPT: words("pet"),
	volume.ModalityCT: words("ct"),
}

// wordsOf are the words of a text, in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// among is the modality that has the word, "" where none has.
func among(lists map[string]map[string]bool, word string) string {
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if lists[name][word] {
			return name
		}
	}
	return ""
}

// ModalityOfChannel is the modality of a channel by its name in dataset.json, such as "CT", "T2w"
// or "late phase CT"; "" where the name says none.
func ModalityOfChannel(channel string) string {
	for _, word := range wordsOf(channel) {
		if name := among(modalityWords, word); name != "" {
			return name
		}
	}
	return ""
}

// modalityOfName is what a file's name says: a suffix of BIDS, or a word at its beginning or end.
func modalityOfName(path string) Modality {
	stem, ok := stemOf(filepath.Base(path))
	if !ok {
		return Modality{}
	}
	stem = channelSuffix.ReplaceAllString(stem, "")
	all := wordsOf(stem)
	if len(all) == 0 {
		return Modality{}
	}
	last := all[len(all)-1]
	if strings.HasPrefix(stem, "sub-") {
		if name := among(bidsSuffixes, last); name != "" {
			return Modality{name, "suffix of BIDS", true}
		}
	}
	for _, word := range []string{last, all[0]} {
		if name := among(modalityWords, word); name != "" && nameWords[word] {
			return Modality{name, "name", false}
		}
	}
	return Modality{}
}

// setModalities says of the cases of a data set's folder what they are, as far as that is known
// without reading them. Of DICOM, that is the header's to say.
func (d *Dataset) setModalities(root string, chosen int) {
	var file struct {
		Channels map[string]any `json:"channel_names"`
		Modality map[string]any `json:"modality"`
	}
	stated := ""
	// What is wrong with the file, its other readers say.
	if found, err := readJSON(filepath.Join(root, "dataset.json"), &file); found && err == nil {
		channels := file.Channels
		if channels == nil {
			channels = file.Modality
		}
		channel, _ := channels[fmt.Sprint(max(chosen, 1)-1)].(string)
		stated = ModalityOfChannel(channel)
	}
	for n := range d.Cases {
		c := &d.Cases[n]
		switch {
		case d.Layout == LayoutNIH:
			c.modality = Modality{volume.ModalityCT, "layout", true}
		case c.series != nil || c.IsDICOM():
		case stated != "":
			c.modality = Modality{stated, "dataset.json", true}
		default:
			c.modality = modalityOfName(c.Image)
		}
	}
}

// Modality is what the case is, as far as that is known without reading its voxels.
func (c Case) Modality() Modality {
	if c.modality.Name != "" || c.refused != nil || !c.IsDICOM() && c.series == nil {
		return c.modality
	}
	s := c.series
	if s == nil {
		var err error
		if s, err = c.DICOM(); err != nil {
			return Modality{}
		}
	}
	if len(s.Modality) != 2 || s.Modality == "OT" { // there is none, or another
		return Modality{}
	}
	return Modality{s.Modality, "DICOM header", true}
}

// mayBeCT says whether nothing in a series says that it is none.
func mayBeCT(s *dicom.Series) bool {
	m := Case{series: s}.Modality().Name
	return m == "" || m == volume.ModalityCT
}

// TakenFor is the case as one of a modality, where nobody says what it is.
func (c Case) TakenFor(modality string) Case {
	if c.Modality().Name == "" {
		c.modality = Modality{Name: modality, By: "others"}
	}
	return c
}

// likeness is what the values of a scan are like.
type likeness int

const (
	likeNothing   likeness = iota // nobody can tell
	likeCT                        // Hounsfield units: air, lung or fat
	likeShiftedCT                 // the same, 1024 or 1000 higher
	unlikeCT                      // no Hounsfield units
)

// likenessOf looks at a scan's values. A CT has air at -1000 HU, or fat at -100, and nothing below
// -1100 but one value or two that stand for what was not scanned. The values of MR begin at 0;
// resampling makes some of them negative, not many.
func likenessOf(v *volume.Volume) likeness {
	const (
		leastVoxels = 1000
		leastRange  = 20    // HU
		few         = 0.001 // of the voxels
		some        = 0.01
	)
	counts, finite := make([]int, 1<<16), 0
	low, high := v.Statistics().Min, v.Statistics().Max
	add := func(x float32) {
		if x-x == 0 {
			counts[int(min(max(x, -1<<15), 1<<15-1))+1<<15]++
			finite++
		}
	}
	for _, x := range v.Int16 {
		add(float32(x))
	}
	for _, x := range v.Float32 {
		add(x)
	}
	share := func(from, to int) float64 {
		n := 0
		for value := from; value <= to; value++ {
			n += counts[value+1<<15]
		}
		return float64(n) / float64(finite)
	}
	fillers := 0 // values below all tissue that many voxels have
	for value := -1 << 15; value < -1100; value++ {
		if counts[value+1<<15] > 0 {
			fillers++
		}
	}
	switch {
	case finite < leastVoxels || low == high || nifti.VolumeMayBeLabels(v):
		return likeNothing
	case high-low <= leastRange:
		return unlikeCT
	case low >= 0:
		// fat lies around 900, or 924, soft tissue around 1050, or 1074, and there is little else
		body, fat, soft := share(300, 1<<15-1), share(850, 970), share(1010, 1174)
		if low < 300 && body > some && fat+soft > 0.6*body && min(fat, soft) > 0.05*body {
			return likeShiftedCT
		}
		return unlikeCT
	case share(-1<<15, -50) < few:
		return unlikeCT
	case share(3100, 1<<15-1) >= some: // brighter than scanners write, but for a little metal
		return unlikeCT
	case fillers > 8 && share(-1<<15, -1101) > 5*some:
		return unlikeCT
	case share(-1100, -200) >= some || share(-150, -50) >= some:
		return likeCT
	case share(-1<<15, -50) < share(-49, -1)/5: // falls off below 0, as ringing does
		return unlikeCT
	}
	return likeNothing
}

// fits says whether values of that likeness may be those of a modality.
func (l likeness) fits(modality string) bool {
	switch l {
	case likeCT, likeShiftedCT:
		return modality == volume.ModalityCT
	case unlikeCT:
		return modality != volume.ModalityCT
	}
	return true
}

func (l likeness) String() string {
	if l == unlikeCT {
		return "no Hounsfield units"
	}
	return "Hounsfield units, as those of a CT"
}

// A ModalityError says that a scan is another kind of scan than it is taken for.
type ModalityError struct{ message string }

func (e *ModalityError) Error() string { return e.message }

// CheckModality refuses a scan, which was read, that is another than the modality: as it is stated,
// or else by its values. A name that says otherwise than the values is not believed.
func (c Case) CheckModality(v *volume.Volume, modality string) error {
	known := c.Modality()
	if known.Stated {
		if known.Name == modality {
			return nil
		}
		return &ModalityError{fmt.Sprintf("is %s by its %s, not %s", known.Name, known.By, modality)}
	}
	like := likenessOf(v)
	if !like.fits(modality) {
		return &ModalityError{fmt.Sprintf("is not %s by its values: they are %s", modality, like)}
	}
	if known.Name != "" && known.Name != modality && like == likeNothing {
		return &ModalityError{fmt.Sprintf("is %s by its %s, not %s", known.Name, known.By, modality)}
	}
	return nil
}

// A MixedError says that the cases of a data set are of several modalities.
type MixedError struct {
	Root  string
	Cases map[string][]string // by modality
}

func (e *MixedError) Error() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(e.Cases)) {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", numbers.Count(len(e.Cases[name]), "case"), name, safetext.List(e.Cases[name])))
	}
	return fmt.Sprintf("%s holds scans of several modalities: %s", e.Root, strings.Join(parts, "; "))
}

// Hint says what to do.
func (e *MixedError) Hint() string {
	names := slices.Sorted(maps.Keys(e.Cases))
	return fmt.Sprintf("--modality %s prepares the cases of one alone: prepare the others into a folder of their own", strings.Join(names, ", or --modality "))
}

// nameModalities writes into the entries of a data set's scans what they are, and says whether
// these are of several modalities: as is stated, or where nothing is, by their values.
func (d *Dataset) nameModalities(entries []Entry) (notes []string) {
	find := indexEntries(entries)
	stated, values := map[string][]string{}, map[string][]string{}
	for _, c := range d.Cases {
		m := c.Modality()
		if m.Stated {
			stated[m.Name] = append(stated[m.Name], c.ID)
		}
		e := find.entry(c.Image, c.Series)
		if e == nil {
			continue
		}
		if e.Modality == "" {
			e.Modality = m.Name
		}
		switch e.like {
		case likeCT, likeShiftedCT:
			values["CT (by their values)"] = append(values["CT (by their values)"], c.ID)
		case unlikeCT:
			values["no CT (by their values)"] = append(values["no CT (by their values)"], c.ID)
		}
	}
	if mixed := (&MixedError{d.Root, stated}); len(stated) > 1 {
		notes = append(notes, mixed.Error()+": "+mixed.Hint())
	} else if len(stated) == 0 && len(values) > 1 {
		notes = append(notes, (&MixedError{d.Root, values}).Error()+": prepare them one by one")
	}
	return notes
}

// sampled is how many scans are read of a data set about whose modality nobody says anything.
const sampled = 3

// ChooseModality is the preparation for the modality of the scans, where it does not name one, and
// the data set with those of them that are prepared: all, or the ones of the modality that is
// named. Where nobody says what the scans are, the values of some of them do. Scans of several
// modalities are a [MixedError]. The note says what was chosen, and why; it is empty for CT.
func (d *Dataset) ChooseModality(p volume.Preparation, o PrepareOptions) (_ *Dataset, _ volume.Preparation, note string, err error) {
	if d.chosen {
		return d, p, "", nil
	}
	if err := p.Choose([3]float64{}).Check(); err != nil {
		return nil, p, "", err
	}
	kept := *d
	kept.chosen = true
	if wanted := strings.ToUpper(p.Modality); wanted != "" {
		kept.said, kept.Cases = true, nil
		left := map[string][]string{}
		for _, c := range d.Cases {
			if m := c.Modality(); m.Stated && m.Name != wanted {
				left[m.Name] = append(left[m.Name], c.ID)
			} else {
				c.modality = Modality{wanted, "--modality", true}
				kept.Cases = append(kept.Cases, c)
			}
		}
		var notes []string
		for _, name := range slices.Sorted(maps.Keys(left)) {
			notes = append(notes, fmt.Sprintf("left out, because --modality %s asks for others: %s of %s (%s)", wanted, numbers.Count(len(left[name]), "case"), name, safetext.List(left[name])))
		}
		if len(kept.Cases) == 0 {
			if slices.ContainsFunc(d.Cases, func(c Case) bool { return c.series != nil || c.IsDICOM() }) {
				notes = append(notes, fmt.Sprintf("where studies have several series, --series modality~%s takes those", wanted))
			}
			return nil, p, "", fmt.Errorf("no case is %s: %s", wanted, strings.Join(notes, "; "))
		}
		p = p.ForModality(wanted)
		if wanted != volume.ModalityCT {
			notes = append(notes, fmt.Sprintf("modality %s, by --modality; intensities: %s (--intensity %s)", wanted, p.DescribeIntensities(), p.Scheme()))
		}
		return &kept, p, strings.Join(notes, "; "), p.Choose([3]float64{}).Check()
	}
	modality, why, err := d.modalityOfAll(p, o)
	if err != nil {
		return nil, p, "", err
	}
	p = p.ForModality(modality)
	kept.Cases = slices.Clone(d.Cases)
	for n, c := range kept.Cases {
		kept.Cases[n] = c.TakenFor(modality)
	}
	if err := p.Choose([3]float64{}).Check(); err != nil {
		return nil, p, "", fmt.Errorf("modality %s, by the %s: %w", modality, why, err)
	}
	if modality == volume.ModalityCT {
		return &kept, p, "", nil
	}
	return &kept, p, fmt.Sprintf("modality %s, by the %s; intensities: %s (--intensity %s)", modality, why, p.DescribeIntensities(), p.Scheme()), nil
}

// modalityOfAll is the one modality of the scans, and who says so.
func (d *Dataset) modalityOfAll(p volume.Preparation, o PrepareOptions) (modality, why string, err error) {
	stated, named := map[string][]string{}, map[string][]int{}
	for n, c := range d.Cases {
		switch m := c.Modality(); {
		case m.Stated:
			stated[m.Name], why = append(stated[m.Name], c.ID), m.By
		case m.Name != "":
			named[m.Name] = append(named[m.Name], n)
		}
	}
	if len(stated) > 1 {
		return "", "", &MixedError{d.Root, stated}
	}
	for name := range stated {
		return name, why, nil // each of the others is compared with it
	}
	// What names say is asked of the values, and what no names say, too.
	found := map[string][]string{}
	allowed := cmp.Or(o.allowed, o.Memory, memory.Allowed())
	look := func(name string, at int) {
		c := d.Cases[at].located()
		if need, known := c.memory(p); known && need > allowed {
			return
		}
		v, _, err := c.ReadImage(o.Read)
		if err != nil {
			return // its preparation says why
		}
		switch like := likenessOf(v); {
		case like == likeNothing && name == "":
			return // it has no say
		case like == unlikeCT && (name == "" || name == volume.ModalityCT):
			name = volume.ModalityMR
		case !like.fits(name) || name == "":
			name = volume.ModalityCT
		}
		found[name] = append(found[name], d.Cases[at].ID)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		look(name, named[name][0])
	}
	if len(named) == 0 {
		at := -1
		for n := range sampled {
			if next := n * (len(d.Cases) - 1) / (sampled - 1); next != at {
				at = next
				look("", at)
			}
		}
	}
	switch names := slices.Sorted(maps.Keys(found)); {
	case len(names) > 1:
		return "", "", &MixedError{d.Root, found}
	case len(names) == 0:
		return volume.ModalityCT, "", nil
	case named[names[0]] != nil:
		return names[0], "names", nil
	default:
		return names[0], "values, which are no Hounsfield units: if it is another modality, say it with --modality", nil
	}
}
