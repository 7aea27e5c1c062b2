package experiment

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: what an experiment's folder holds, and whose that is.

// What an experiment leaves in its folder.
const (
	planFile          = "plan.yaml"
	subsetsFile       = "subsets.json"
	splitsFile        = "splits_final.json"
	trialsFolder      = "trials"
	pretrainingFolder = "pretraining"
	teachersFolder    = "teachers" // of trials that have some: their runs, and what they predicted
	networksFolder    = "networks" // of trials of several networks: the runs of all but the last
)

// What the command of an experiment makes of its results, in the same folder. A trial leaves the
// scores of its test cases in its own.
const (
	ScoresFile  = train.ScoresFile
	ComputeFile = "compute.csv"
	CurvesFile  = "curves.csv"
	ReportName  = "report" // of report.html, report.md, and the folder report_files
)

// owner has the files of an experiment. Trials that somebody has copied into the folder are looked
// at by [runner.record].
var owner = outdir.Owner{Name: "voxsaw crossval", Old: trialsFolder + "/*", Files: append(ReportFiles(),
	planFile, subsetsFile, splitsFile, trialsFolder, pretrainingFolder, teachersFolder, networksFolder, ComputeFile,
	train.Planned)}

// StudyOf is the folder of the experiment that a run belongs to, "" of a run of its own.
func StudyOf(run string) string {
	path, err := filepath.Abs(run)
	if err != nil {
		return ""
	}
	for up := filepath.Dir(path); up != filepath.Dir(up); up = filepath.Dir(up) {
		if name := filepath.Base(up); name == trialsFolder || name == pretrainingFolder || name == teachersFolder ||
			name == networksFolder {
			if _, err := os.Stat(filepath.Join(filepath.Dir(up), planFile)); err == nil {
				return filepath.Dir(up)
			}
		}
	}
	return ""
}

// NameOf is what a run is called beside others: its path from the folder of the experiment that it
// belongs to, that folder's name in front; the name of its folder for a run of its own.
func NameOf(run string) string {
	path, err := filepath.Abs(run)
	if err != nil {
		return filepath.Base(run)
	}
	if study := StudyOf(run); study != "" {
		if name, err := filepath.Rel(filepath.Dir(study), path); err == nil {
			return filepath.ToSlash(name)
		}
	}
	return filepath.Base(path)
}

// InitialisationOf is the name of the initialisation that a run of an experiment pretrains, "" of a
// trial and of a run of its own.
func InitialisationOf(run string) string {
	name := strings.Split(NameOf(run), "/")
	if len(name) < 3 || name[1] != pretrainingFolder || StudyOf(run) == "" {
		return ""
	}
	return name[2]
}

// PlanOf is the path of the plan in an experiment's folder.
func PlanOf(study string) string { return filepath.Join(study, planFile) }

// Seal keeps the digests of the tables and pages that a study's command has written.
func (s Setting) Seal() error {
	return atomicfile.Seal(s.Out, ScoresFile, ComputeFile, CurvesFile)
}

// ReportFiles are the names of the files that are made from scores alone.
func ReportFiles() []string {
	return append(PageFiles(), ScoresFile, CurvesFile)
}

// PageFiles are those of a study's report.
func PageFiles() []string {
	return []string{ReportName + ".html", ReportName + ".md", ReportName + "_files"}
}

// The folders that a demo has beside its experiment.
const (
	ScansFolder    = "scans"
	PreparedFolder = "prepared"
	labelsFolder   = "labels"
)

// TakeDemo makes the folder of a demo, and makes sure that nobody else's files in it have the names
// of the demo's.
func TakeDemo(out string) error {
	return outdir.Owner{Name: "voxsaw demo", Old: PreparedFolder + "/cases/patient_001.*",
		Files: []string{ScansFolder, PreparedFolder, labelsFolder}}.Take(out)
}
