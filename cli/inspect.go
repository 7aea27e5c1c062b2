package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/photo"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

type inspectOptions struct {
	Series   string           `yaml:"series" help:"look at these DICOM series only: by number, number.part or UID, or by words such as description~portal or modality~MR,plane=axial (description, protocol, kernel, phase, modality, plane, type or unit; ~ contains, = is)"`
	Channels string           `yaml:"channels" help:"channels of each scan, as prepare --channels has them"`
	Volume   int              `yaml:"volume" help:"look at this volume of 4D files, or at this channel of nnU-Net cases, 1 for the first; 0: at all"`
	LabelsBy dataset.LabelsBy `yaml:"labels_by" help:"where labels lie on their scan: where their header says, or by index, voxel by voxel in the order of the files" oneof:"header index"`
	Part     string           `yaml:"part" help:"look at this part of the cases only, such as 3/16 for the third of 16: parts may be looked at at once, on many machines"`
	Memory   gibibytes        `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has. A scan that needs more is looked at piece by piece, or named"`
	JSON     bool             `yaml:"json" help:"print a list of {path, kind, shape, spacing, axcodes, affine, dtype, min, max, mean, problems}; of DICOM series {series, number, modality, description, protocol, kernel, phase, image_type, unit}, too"`
}

func newInspect() *cobra.Command {
	o := &inspectOptions{LabelsBy: dataset.LabelsByHeader}
	return verb(
		"inspect PATH...",
		"Say what scans are there, and what is wrong with them",
		`Reads every NIfTI file and DICOM series at the paths and says what they are: format, shape,
spacing, orientation, range of values, labels with voxel counts. Problems come first. Nothing about a
patient is printed. The exit code is 1 where a scan cannot be read; other problems are told alone.`,
		`  voxsaw inspect Task07_Pancreas/
  voxsaw inspect --json scan.nii.gz | jq '.[0].spacing'`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runInspect(cmd, *o, args) },
	)
}

func runInspect(cmd *cobra.Command, o inspectOptions, paths []string) error {
	part, err := dataset.ParsePart(o.Part)
	if err = cmp.Or(err, dicom.CheckWanted(o.Series)); err != nil {
		return config.Mistaken(err)
	}
	o.Memory.limitAll()
	var progress terminal.Progress
	look := dataset.InspectOptions{Series: o.Series, Volume: o.Volume, LabelsBy: o.LabelsBy, Part: part,
		Channels: volume.Preparation{Channels: o.Channels}.ChannelsAsked(),
		Progress: func(_, total int) {
			if progress == nil && total > 20 { // fewer are done before anybody wonders
				progress = terminal.NewProgress(cmd.ErrOrStderr(), "inspect", total)
			}
			if progress != nil {
				progress.Add(1)
			}
		}}
	entries, notes, err := dataset.Inspect(cmd.Context(), paths, look)
	if progress != nil {
		progress.Finish()
	}
	if err != nil {
		return err
	}
	isScan := func(e dataset.Entry) bool { return e.Kind != dataset.KindUnknown }
	if !slices.ContainsFunc(entries, isScan) && o.Series == "" && part.Of == 0 {
		if done, err := inspectPhotos(cmd, o, paths); done || err != nil {
			return err
		}
	}
	if len(entries) > 0 || o.JSON { // an error says it otherwise
		for _, note := range once(notes) {
			say(cmd.ErrOrStderr(), "%s", note)
		}
	}
	if o.JSON {
		if entries == nil {
			entries = []dataset.Entry{}
		}
		return errors.Join(printJSON(cmd.OutOrStdout(), entries), unreadable(entries))
	}
	if len(entries) == 0 && part.Of > 0 {
		say(cmd.ErrOrStderr(), "nothing is in part %s: there are fewer cases than parts, or none", part)
		return nil
	}
	if len(entries) == 0 && o.Series != "" {
		return withHint(fmt.Errorf("%s: no series %s here", strings.Join(paths, ", "), o.Series),
			"without --series all are listed")
	}
	if len(entries) == 0 {
		for _, path := range paths {
			if remark := outdir.Remark(path); remark != "" {
				return withHint(fmt.Errorf("%s%s: no file of voxels and no DICOM series here", path, remark),
					"voxsaw view %s shows what it holds", hint.Word(path))
			}
		}
		return withHint(fmt.Errorf("%s: no file of voxels and no DICOM series here", strings.Join(paths, ", ")),
			"NIfTI files end in .nii, .nii.gz or .hdr, others that are read in .nrrd, .nhdr, .mha or "+
				".mhd; DICOM files may have any other name")
	}
	err = printEntries(cmd.OutOrStdout(), dataset.ProblemsFirst(entries))
	sayFlags(cmd, entries, notes)
	wrong := unreadable(entries)
	if wrong != nil && isStage(cmd.Context()) { // preparing leaves them out, if enough are left
		say(cmd.ErrOrStderr(), "WARNING: %v: the job goes on with what can be read", wrong)
		wrong = nil
	}
	return errors.Join(err, wrong)
}

var flagWord = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)

// sayFlags says whose flags they are that problems and notes name, where they are not inspect's.
func sayFlags(cmd *cobra.Command, entries []dataset.Entry, notes []string) {
	texts := slices.Clone(notes)
	for _, e := range entries {
		texts = append(texts, e.Problems...)
	}
	prepare := newPrepare().Flags()
	var named []string
	for _, flag := range flagWord.FindAllString(strings.Join(texts, "\n"), -1) {
		name := strings.TrimPrefix(flag, "--")
		if !slices.Contains(named, flag) && cmd.Flags().Lookup(name) == nil && prepare.Lookup(name) != nil {
			named = append(named, flag)
		}
	}
	switch {
	case len(named) == 1:
		say(cmd.ErrOrStderr(), "%s is a flag of voxsaw prepare: inspect only looks", named[0])
	case len(named) > 1:
		say(cmd.ErrOrStderr(), "%s are flags of voxsaw prepare: inspect only looks", strings.Join(named, ", "))
	}
}

// unreadable names the entries that cannot be read; nil if there are none.
func unreadable(entries []dataset.Entry) error {
	var names []string
	for _, e := range entries {
		if e.Unreadable {
			names = append(names, e.Path)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d cannot be read: %s", len(names), len(entries), safetext.List(names))
}

// inspectPhotos says what photographs are at the paths, where there are no scans, and which command
// is for them. It reports whether there are any.
func inspectPhotos(cmd *cobra.Command, o inspectOptions, paths []string) (bool, error) {
	entries := []dataset.Entry{}
	var lines []string
	for _, path := range paths {
		entry := dataset.Entry{Path: path, Problems: []string{}}
		stat, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		if stat.IsDir() {
			set, err := photos.Find(path, 0, 0)
			if err != nil {
				return false, nil // as the caller says
			}
			entry.Kind = "photographs"
			entry.Problems = append(entry.Problems, set.Notes...)
			lines = append(lines, describePhotos(set))
		} else {
			p, err := photo.Read(path)
			var problem *photo.Problem
			switch {
			case errors.As(err, &problem) && photo.IsPicture(path):
				entry.Kind, entry.Unreadable, entry.Problems = "photograph", true,
					append(entry.Problems, problem.Error())
				lines = append(lines, safetext.Text(fmt.Sprintf("%s: %s", path, problem)))
			case err != nil:
				return false, nil
			default:
				entry.Kind, entry.Shape, entry.Dtype = string(p.Format)+" photograph", []int{p.Width, p.Height}, "uint8"
				lines = append(lines, safetext.Text(fmt.Sprintf("%s: a photograph (%s, %d x %d pixels)", path, p.Format,
					p.Width, p.Height)))
			}
		}
		entries = append(entries, entry)
	}
	if o.JSON {
		return true, errors.Join(printJSON(cmd.OutOrStdout(), entries), unreadable(entries))
	}
	for _, line := range lines {
		fmt.Fprintln(cmd.OutOrStdout(), line)
	}
	fmt.Fprintln(cmd.ErrOrStderr(),
		"these are photographs, not scans: voxsaw 2d prepare FOLDER --out photos makes them ready for training")
	return true, unreadable(entries)
}

// printEntries writes a table, without the columns that would be empty.
func printEntries(w io.Writer, entries []dataset.Entry) error {
	prefix := commonFolder(entries)
	header := []string{"path", "kind", "series", "description", "kernel", "phase", "shape", "spacing (mm)", "axes",
		"type", "values", "labels", "problems"}
	rows := make([][]string, 0, len(entries))
	used := make([]bool, len(header))
	used[0] = true
	problems := 0
	told, endings := problemsOnce(entries)
	for n, e := range entries {
		var values, labels string
		switch {
		case e.Labels != nil:
			labels = countsOf(e.Labels, e.LabelNames)
		case e.LabelNames != nil: // contours, which are not counted
			labels = list(inOrder(e.LabelNames))
		case e.Min != nil && e.Max != nil:
			values = fmt.Sprintf("%.4g to %.4g", *e.Min, *e.Max)
		}
		if len(e.Problems) > 0 {
			problems++
		}
		row := []string{
			strings.TrimPrefix(e.Path, prefix), e.Kind, strings.TrimSpace(e.Modality + " " + e.Number), e.Description,
			e.Kernel, e.Phase, join(e.Shape, "%d", "x"), join(e.Spacing, "%.4g", " x "), e.Axcodes, e.Dtype,
			values, labels, told[n],
		}
		for n, cell := range row {
			used[n] = used[n] || cell != ""
		}
		rows = append(rows, row)
	}
	withoutUnused := func(row []string) []string {
		short := row[:0]
		for n, cell := range row {
			if used[n] {
				short = append(short, cell)
			}
		}
		return short
	}
	for n, row := range rows {
		rows[n] = withoutUnused(row)
	}
	err := terminal.Table(w, terminal.TableData{Title: title(entries, prefix, problems), Header: withoutUnused(header),
		Rows: rows, Remarks: problems > 0})
	for n, ending := range endings {
		say(w, "note %d, %d times: %s", n+1, ending.Count, ending.Text)
	}
	return err
}

// problemsOnce are the problems of each entry for a table, and what many of them end in, with a
// note below it: each names its number there.
func problemsOnce(entries []dataset.Entry) (told []string, endings []safetext.Ending) {
	var all []string
	for _, e := range entries {
		all = append(all, e.Problems...)
	}
	rest, of, endings := safetext.Once(all)
	told = make([]string, len(entries))
	n := 0
	for at, e := range entries {
		texts := make([]string, len(e.Problems))
		for i := range e.Problems {
			switch texts[i] = rest[n]; {
			case of[n] >= 0 && rest[n] == "":
				texts[i] = fmt.Sprintf("see note %d", of[n]+1)
			case of[n] >= 0:
				texts[i] += fmt.Sprintf(" (note %d)", of[n]+1)
			}
			n++
		}
		told[at] = strings.Join(texts, "; ")
	}
	return told, endings
}

// title counts what there is.
func title(entries []dataset.Entry, folder string, problems int) string {
	series := 0
	for _, e := range entries {
		// and no damaged file
		if (e.Kind == dataset.KindDICOM || e.Kind == dataset.KindLocalizer) && e.Shape != nil {
			series++
		}
	}
	var parts []string
	for _, c := range []struct {
		n         int
		one, many string
	}{{len(entries) - series, "file", "files"}, {series, "DICOM series", "DICOM series"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, map[bool]string{true: c.one, false: c.many}[c.n == 1]))
		}
	}
	if folder != "" {
		folder = " in " + folder
	}
	return fmt.Sprintf("%s%s, %d with problems", strings.Join(parts, " and "), folder, problems)
}

// inOrder lists names in the order of their labels.
func inOrder(names map[uint16]string) (ordered []string) {
	for _, label := range slices.Sorted(maps.Keys(names)) {
		ordered = append(ordered, names[label])
	}
	return ordered
}

// countsOf shows how many voxels the first few labels have.
func countsOf(counts map[uint16]int, names map[uint16]string) string {
	const most = 6
	var parts []string
	for _, label := range slices.Sorted(maps.Keys(counts)) {
		if label != 0 {
			name := names[label]
			if name != "" {
				name = " (" + name + ")"
			}
			parts = append(parts, fmt.Sprintf("%d%s: %d", label, name, counts[label]))
		}
	}
	if len(parts) == 0 {
		return "background only"
	}
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d more", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}

func join[T any](values []T, format, separator string) string {
	parts := make([]string, len(values))
	for n, v := range values {
		parts[n] = fmt.Sprintf(format, v)
	}
	return strings.Join(parts, separator)
}

// commonFolder is the longest folder that all paths begin with.
func commonFolder(entries []dataset.Entry) string {
	prefix := entries[0].Path
	for _, e := range entries {
		for !strings.HasPrefix(e.Path, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix[:strings.LastIndexByte(prefix, '/')+1]
}
