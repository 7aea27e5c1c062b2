package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/predict"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/totalseg"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

type predictOptions struct {
	Checkpoint []string          `yaml:"checkpoint" help:"checkpoint of voxsaw finetune, or the folder of its run (its best one); several, or all in a folder that is no run's, are averaged. Or a model of nnU-Net: its folder TRAINER__PLANS__CONFIGURATION in nnUNet_results, or one .pth file in it; or TotalSegmentator's folder nnunet/results"`
	Folds      []string          `yaml:"folds,flow" help:"nnU-Net's models: which folds predict together; empty: all that are there"`
	Task       string            `yaml:"task" help:"TotalSegmentator's: which task, such as total-fast (3 mm); empty: total, or the only one"`
	Out        string            `yaml:"out" help:"folder for the label maps, or the one file to write"`
	Format     string            `yaml:"format" help:"of the label maps: nifti, or dicom-seg or rtstruct (contours), which refer to the DICOM series that was segmented, so that a PACS files them with the study" oneof:"nifti dicom-seg rtstruct"`
	Inference  segment.Inference `yaml:"inference"`

	Probabilities bool   `yaml:"probabilities" help:"write NAME_probabilities.nii.gz, too: float32, a volume for each class, background first"`
	Logits        bool   `yaml:"logits" help:"write NAME_logits.nii.gz, too: float32, what the network gives before the softmax"`
	Agreement     bool   `yaml:"agreement" help:"write into quality.csv how alike the label maps are that each checkpoint makes alone, or with --mirror those with and without mirror images; takes as long again, but with models of nnU-Net"`
	Calibration   string `yaml:"calibration" help:"calibration.csv of voxsaw next: quality.csv then has an estimate of DSC, by label maps of the same checkpoints whose DSC is known"`
	MapsOn        string `yaml:"maps_on" help:"voxels of both: the scan's own, or the prepared ones, as the network saw them" oneof:"scan prepared"`

	Series   string              `yaml:"series" help:"which DICOM series to take of each study: its number, number.part or UID, words such as description~portal or modality~MR,plane=axial, or all; empty: by the words that the training chose by, else the largest axial CT"`
	Contrast string              `yaml:"contrast" help:"which contrast to take of each subject of BIDS: T1w, ce-gad_T1w or other words of the scan's name, or all; empty: there must be only one"`
	Volume   int                 `yaml:"volume" help:"which volume of 4D files, 1 for the first; 0: there must be only one"`
	Masks    bool                `yaml:"labels_as_scans" help:"segment NIfTI files in folders, too, that hold labels by their values"`
	Read     dataset.ReadOptions `yaml:"read"`
	Part     string              `yaml:"part" help:"make the label maps of this part of the scans only, such as 3/16 for the third of 16: parts may be made at once, on many machines, into one folder; without --part the same command then tells of all in quality.csv"`
	Force    bool                `yaml:"force" help:"write over label maps that are there already, and segment scans whose voxels, or whose modality, are none of those that the network was trained on"`
	Machine  deviceOptions       `yaml:"machine"`
	Memory   gibibytes           `yaml:"memory" help:"limit for the program, the network, the scan and the sums over it; mapped files come on top: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

// The voxels that probabilities and logits are written on.
const (
	mapsOnScan     = "scan"
	mapsOnPrepared = "prepared"
)

func newPredict() *cobra.Command {
	o := &predictOptions{Format: predict.NIfTI, MapsOn: mapsOnScan, Inference: segment.DefaultInference(),
		Read: dataset.DefaultReadOptions(), Machine: defaultDevice()}
	cmd := verb(
		"predict SCANS...",
		"Make label maps in the geometry of the scans",
		`Segments scans: NIfTI files, folders of a DICOM series, or folders of either. Each label map is
NIfTI on exactly the grid of its scan, or with --format dicom-seg a DICOM SEG object, with --format
rtstruct an RT structure set, on the slices of its series, which shows the patient and the study as the
series does. Names are those of the scans, without the _0000 that nnU-Net's images end in; in a data set,
those of its cases, as evaluate looks for them. --probabilities and --logits write the network's numbers
beside it. The scan is prepared as the training cases were; a window slides over it, overlapping windows
are weighted by a Gaussian. Label maps say which weights and settings made them, and of which scan. Scans
whose label map is there already are passed over, so that a batch can be taken up again; a label map of
another scan, another model or other settings is not taken for this one's: nothing is done then, unless
--force says so. quality.csv beside them tells volume, height and components of each structure, and which
are unusual in this batch; predictions.html shows the most unusual ones. --part 3/16 makes the label maps
of every sixteenth scan, on a machine of its own.`,
		`  voxsaw predict imagesTs/ --checkpoint runs/organs --out labels --components largest`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runPredict(cmd, *o, args) },
	)
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

// known reads the label maps whose DSC is known, and gives the file that they are in.
func (o predictOptions) known() (cases []quality.Case, text []byte, err error) {
	if o.Calibration == "" {
		return nil, nil, nil
	}
	if text, err = readWritten(o.Calibration); err != nil {
		return nil, nil, err
	}
	cases, err = quality.ReadTable(bytes.NewReader(text))
	estimate := quality.NewEstimator(cases)
	switch {
	case err == nil && estimate == nil:
		err = errors.New("no structure has its DSC in at least ten cases: nothing can be estimated by it")
	case err == nil && estimate.ByAgreement() && !o.Agreement:
		return nil, nil, withHint(usagef("%s tells DSC by the agreement of label maps, which is not asked for",
			o.Calibration), "add --agreement, which takes as long again")
	}
	return cases, text, o.calibrated(err)
}

// calibrated is an error of the file of --calibration, with what to do.
func (o predictOptions) calibrated(err error) error {
	if err == nil {
		return nil
	}
	return withHint(fmt.Errorf("%s: %w", o.Calibration, err),
		"give it the calibration.csv that voxsaw next has written for these checkpoints, with the same windows, "+
			"--mirror and --components")
}

// checkKnown makes sure that the label maps whose DSC is known are of this model.
func (o predictOptions) checkKnown(text []byte, model predict.Model) error {
	if o.Calibration == "" {
		return nil
	}
	return o.calibrated(predict.CheckCalibration(text, model))
}

// maps says which numbers of the network are written.
func (o predictOptions) maps() segment.MapOptions {
	return segment.MapOptions{Probabilities: o.Probabilities, Logits: o.Logits, Prepared: o.MapsOn == mapsOnPrepared,
		Agreement: o.Agreement}
}

func runPredict(cmd *cobra.Command, o predictOptions, paths []string) error {
	if len(o.Checkpoint) == 0 {
		return withHint(usagef("no checkpoint to predict with"),
			"add --checkpoint FILE, the last.safetensors of voxsaw finetune")
	}
	foreign, err := o.foreign()
	if err != nil {
		return err
	}
	if foreign == nil {
		if o.Checkpoint, err = checkpointsOf(cmd.ErrOrStderr(), o.Checkpoint); err != nil {
			return err
		}
	}
	if o.Out == "" {
		return withHint(usagef("nowhere to write"), "add --out FOLDER")
	}
	if err := dicom.CheckWanted(o.Series); err != nil {
		return config.Mistaken(err)
	}
	if on := settingOf(cmd, "maps-on"); on.given() && o.MapsOn == mapsOnPrepared && !o.Probabilities && !o.Logits {
		return withHint(usagef("%v says on which voxels probabilities and logits are, and neither is written", on),
			"add --probabilities or --logits")
	}
	part, err := dataset.ParsePart(o.Part)
	if err != nil {
		return config.Mistaken(err)
	}
	channels, series := foreign.channels(), ""
	var unlike error
	if foreign == nil {
		if channels, series, unlike, err = o.takes(); err != nil {
			return err
		}
	}
	known, calibration, err := o.known()
	if err != nil {
		return err
	}
	ranks := jobOf(cmd.Context())
	batch, err := predict.New(paths, predict.Options{
		Channels: channels, Series: series, Unlike: unlike, Out: o.Out, Format: o.Format, Force: o.Force, Read: o.Read,
		Maps: o.maps(), Known: known,
		Part: part, Ranks: ranks.ranks(), Find: dataset.Options{Series: o.Series, Contrast: o.Contrast,
			Volume: o.Volume, LabelsAsScans: o.Masks},
	})
	if err != nil {
		return refused(err)
	}
	stderr := cmd.ErrOrStderr()
	sayNotes(stderr, batch.Notes, "voxsaw inspect "+hint.Words(paths...))
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	model, closeModel, err := o.open(dev, foreign, stderr)
	if err != nil {
		return err
	}
	defer closeModel()
	if err := o.checkKnown(calibration, model); err != nil {
		return err
	}
	watch := &predictProgress{
		Progress: terminal.NewProgress(stderr, "predict", batch.Len()), stdout: cmd.OutOrStdout()}
	err = errors.Join(batch.Run(cmd.Context(), model, watch), watch.failed)
	watch.Finish()
	if peak := peakMemory(); peak > 0 && cmd.Context().Err() == nil {
		say(stderr, "%s", peakNote(peak, o.Memory.bytes()))
	}
	var stopped *predict.StoppedError
	var other *predict.RefusedError
	var failed *predict.FailedError
	switch {
	case errors.As(err, &other):
		return refused(err)
	case errors.As(err, &stopped):
		return withHint(err, "the same command goes on from there")
	case atomicfile.NoRoom(err):
		return withHint(err, "make room; then the same command goes on from there")
	case errors.As(err, &failed):
		return withHint(err, "once what is said above of these is put right, the same command does what is missing")
	}
	return err
}

// takes says what the networks want of a scan: the names of its channels, nil for one, and by which
// words the DICOM series were chosen that they have learnt from. Unlike says that these differ.
func (o predictOptions) takes() (channels []string, series string, unlike, err error) {
	for n, path := range o.Checkpoint {
		d, err := checkpoint.Read(path)
		if err != nil {
			return nil, "", nil, err
		}
		how, err := d.Preparation()
		if err != nil {
			return nil, "", nil, err
		}
		switch was := d.Learnt.Series; {
		case n > 0 && !dicom.SameWords(was, series):
			unlike = fmt.Errorf("%s has learnt from the DICOM series %s, and %s from %s: which to predict?",
				o.Checkpoint[0], wordsOf(series), path, wordsOf(was))
		case n == 0:
			if series = was; how.Channels != "" {
				channels = how.ChannelNames()
			}
		}
	}
	if unlike != nil {
		series = ""
	}
	return channels, series, unlike, nil
}

// wordsOf are the words that chose DICOM series, as an error names them.
func wordsOf(series string) string {
	if series == "" {
		return "that nobody chose"
	}
	return safetext.Quote(series)
}

// foreignModel is models of nnU-Net's, or those of a task of TotalSegmentator's; nil: the
// checkpoints are this program's.
type foreignModel struct {
	models []*nnunet.Model // one, or several that are averaged
	set    *totalseg.Set
}

// channels are the names of its channels.
func (m *foreignModel) channels() []string {
	switch {
	case m == nil:
		return nil
	case m.set != nil:
		return m.set.Channels()
	}
	return m.models[0].Labels.Channels
}

// noMirroring switches off the mirror images of nnU-Net's models.
const noMirroring = "none"

// foreign reads what a model of nnU-Net's says about itself, where the checkpoint is one. Settings
// that would change what nnU-Net computes are refused.
func (o predictOptions) foreign() (*foreignModel, error) {
	results := slices.ContainsFunc(o.Checkpoint, totalseg.IsResults)
	switch {
	case o.Task != "" && !results:
		return nil, withHint(usagef("--task is for TotalSegmentator's models, and %s has none",
			safetext.List(o.Checkpoint)), "they lie in ~/.totalsegmentator/nnunet/results")
	case results || slices.ContainsFunc(o.Checkpoint, nnunet.IsModel):
	case len(o.Folds) > 0:
		return nil, usagef("--folds is for nnU-Net's models, and %s is none", safetext.List(o.Checkpoint))
	default:
		return nil, nil
	}
	others := slices.DeleteFunc(slices.Clone(o.Checkpoint), nnunet.IsModel)
	switch {
	case results && len(o.Checkpoint) > 1:
		return nil, withHint(usagef("%s are several models, of which one is a folder of TotalSegmentator's",
			safetext.List(o.Checkpoint)), "name that folder alone")
	case !results && len(others) > 0:
		return nil, withHint(usagef("%s are models of nnU-Net's and others, whose probabilities are not averaged: %s",
			safetext.List(o.Checkpoint), safetext.List(others)), "name models of one kind")
	}
	same := segment.DefaultInference()
	same.Mirror = o.Inference.Mirror
	if c := o.Inference.Components; !results && (c == segment.ComponentsAll || c == segment.ComponentsValidated) {
		same.Components = c
	}
	switch {
	case o.Inference.Mirror != "" && o.Inference.Mirror != noMirroring:
		return nil,
			usagef("--mirror %s: nnU-Net's models are mirrored as they were trained, or with --mirror %s not at all",
				o.Inference.Mirror, noMirroring)
	case o.Inference != same:
		return nil, usagef("nnU-Net's models predict as nnU-Net does: windows and overlap are not to be chosen, " +
			"--components is all or, but for TotalSegmentator's, validated")
	case results && o.Inference.Mirror != "":
		return nil, usagef("--mirror %s: windows of TotalSegmentator's models are never mirrored", o.Inference.Mirror)
	case results && (o.Probabilities || o.Agreement):
		return nil, withHint(usagef("--probabilities and --agreement are not there for TotalSegmentator's models"),
			"leave them out; or predict with one of its models by itself")
	case o.Logits || o.MapsOn == mapsOnPrepared:
		return nil, withHint(usagef("of nnU-Net's models no logits are written, and probabilities on the scan's "+
			"voxels alone"), "leave --logits and --maps-on out")
	}
	if results {
		set, err := totalseg.Open(o.Checkpoint[0], o.Task, o.Folds)
		if choice, is := errors.AsType[*totalseg.ChoiceError](err); is {
			return nil, withHint(&usageError{err}, "--task says which: %s", safetext.List(choice.Tasks))
		}
		if err != nil {
			return nil, err
		}
		return &foreignModel{set: set}, nil
	}
	all := &foreignModel{}
	for _, path := range o.Checkpoint {
		m, err := nnunet.Open(path, o.Folds)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all.models, m.SharesFolder) {
			return nil, withHint(usagef("--checkpoint names %s twice, whose folds nnU-Net averages in another way "+
				"than models", m.Folder), "name the folder once; --folds chooses its folds")
		}
		all.models = append(all.models, m)
	}
	return all, nil
}

// open makes the model ready, and says what it is.
func (o predictOptions) open(dev voxsaw.Device, foreign *foreignModel, stderr io.Writer) (predict.Model, func(),
	error) {
	if foreign != nil {
		d, err := device.From(dev)
		if err != nil {
			return nil, nil, err
		}
		if foreign.set != nil {
			m, err := totalseg.NewModel(d, foreign.set, o.Memory.planned())
			if err != nil {
				return nil, nil, err
			}
			o.introduce(stderr, m.Notes(), m.Bytes())
			return m, func() {}, nil
		}
		model, closeModel, err := o.openNNUNet(d, foreign.models, stderr)
		if asked, is := errors.AsType[*nnunet.AskedError](err); is {
			err = withHint(&usageError{err}, "leave %s out", asked.Flag)
		}
		return model, closeModel, err
	}
	o.Inference.Logits = o.Logits
	p, err := segment.NewPredictor(dev, o.Checkpoint, o.Inference, o.Memory.planned())
	if errors.Is(err, checkpoint.ErrForeign) {
		return nil, nil, withHint(err, "a model of nnU-Net is the folder that has its plans.json and fold_0; "+
			"of MONAI's VNet save the state_dict with safetensors, and start from that: "+
			"voxsaw finetune --init FILE.safetensors --preset monai")
	}
	if err != nil {
		return nil, nil, err
	}
	if o.Agreement {
		if err := p.CanAgree(); err != nil {
			p.Close()
			return nil, nil, withHint(&usageError{err}, "add a checkpoint, or --mirror ijk; or leave --agreement out")
		}
	}
	o.introduce(stderr, p.Notes(), p.Bytes())
	if note := p.WindowNote(); note != "" {
		say(stderr, "%s", note)
	}
	return predict.Own(p), p.Close, nil
}

// openNNUNet makes a model of nnU-Net's ready, or several whose probabilities are averaged.
func (o predictOptions) openNNUNet(dev device.Device, models []*nnunet.Model, stderr io.Writer) (predict.Model, func(),
	error) {
	how := nnunet.Options{NoMirroring: o.Inference.Mirror == noMirroring, Memory: o.Memory.planned(),
		Postprocess:   o.Inference.Components == segment.ComponentsValidated,
		Probabilities: o.Probabilities, Agreement: o.Agreement}
	if len(models) > 1 {
		e, err := nnunet.NewEnsemble(dev, models, how)
		if err != nil {
			return nil, nil, err
		}
		o.introduce(stderr, e.Notes(), e.Bytes())
		model, err := predict.EnsembleOfNNUNet(e)
		return model, func() {}, err
	}
	p, err := nnunet.NewPredictor(dev, models[0], how)
	if err != nil {
		return nil, nil, err
	}
	o.introduce(stderr, p.Notes(), p.Bytes())
	model, err := predict.OfNNUNet(p)
	return model, p.Close, err
}

func (o predictOptions) introduce(stderr io.Writer, notes []string, bytes int64) {
	for _, note := range notes {
		say(stderr, "%s", note)
	}
	say(stderr, "the network takes %s", terminal.Bytes(bytes))
}

// peakNote says how much memory was in use at most. The system counts what no limit can bound.
func peakNote(peak, limit int64) string {
	text := fmt.Sprintf("the most memory in use was %s", terminal.Bytes(peak))
	if limit > 0 && peak > limit {
		text += fmt.Sprintf(": --memory keeps the program, the network, the scan and the sums over it within %s; "+
			"files that are mapped into memory come on top", terminal.Bytes(limit))
	}
	return text
}

// refused turns what package predict refuses into a mistake on the command line.
func refused(err error) error {
	var r *predict.RefusedError
	if !errors.As(err, &r) {
		return err
	}
	if r.Hint == "" {
		return &usageError{err}
	}
	return withHint(&usageError{err}, "%s", r.Hint)
}

// predictProgress shows a batch on standard error, and the label maps that it has written on
// standard output.
type predictProgress struct {
	terminal.Progress
	stdout io.Writer
	failed error // of writing to stdout
}

func (p *predictProgress) Window(scan string, done, total int) {
	p.Describe(fmt.Sprintf("%s: window %d of %d", scan, done, total))
}

func (p *predictProgress) Comparing(scan string) {
	p.Describe(scan + ": is its label map of this scan?")
}

func (p *predictProgress) Passed() { p.Skip(1) }

func (p *predictProgress) Written(path string) {
	if _, err := fmt.Fprintln(p.stdout, safetext.Text(path)); err != nil && p.failed == nil {
		p.failed = err
	}
	p.Add(1)
}

func (p *predictProgress) Elsewhere(paths []string) {
	for _, path := range paths {
		if _, err := fmt.Fprintln(p.stdout, safetext.Text(path)); err != nil && p.failed == nil {
			p.failed = err
		}
	}
}

func (p *predictProgress) Failed(err error) {
	p.Note(err.Error())
	p.Add(1)
}
