// Package cluster writes what a cluster's own scheduler needs to run the trials of an experiment: a
// Slurm job array, a Kubernetes Job or MPIJobs. A person reads it, changes it, and submits it.
//
// Start at [Schedulers] and [Scheduler.Script].
package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
)

// slurmScript is a job array with a task for each trial, on one process or on several ranks.
var slurmScript = template.Must(template.New("sbatch").Parse(`#!/bin/bash
# The trials of an experiment, a task each. Read this, change it, and submit it:
#
#   cd {{.Folder}}
#   sbatch {{.Script}}
#
# Trials that start from the same encoder wait for the first of them to pretrain it. When all tasks
# have ended, the same command{{if .Together}} on one process{{else}} without --trial{{end}} makes the table and the report:
#
#   {{.Again}}
#
{{.Estimate}}
#
#SBATCH --job-name=voxsaw
#SBATCH --array=1-{{.Trials}}
{{- if .Together}}
# the ranks of a trial, on as many nodes as that takes; --nodes says how many
#SBATCH --ntasks={{.Ranks}}
#SBATCH --cpus-per-task={{.Cores}}
{{- else}}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{.Cores}}
{{- end}}
{{- if .PerCore}}
#SBATCH --mem-per-cpu={{.PerCore}}
{{- else}}
# on each node
#SBATCH --mem={{.Memory}}
{{- end}}
# at most so long; a task that was stopped goes on where it stopped when it is submitted again
#SBATCH --time={{.Hours}}:00:00
#SBATCH --requeue
# two minutes before the end the program is told to save
#SBATCH --signal={{if .Together}}USR1{{else}}B:TERM{{end}}@120
#SBATCH --output={{.Logs}}
#SBATCH --open-mode=append

{{if .Together -}}
# pmi2 is for MPICH and what descends from it; for Open MPI it is --mpi=pmix
exec srun --mpi=pmi2 --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  {{.Again}} --threads "$SLURM_CPUS_PER_TASK" --ranks {{.Ranks}} --trial "$SLURM_ARRAY_TASK_ID"
{{- else -}}
exec {{.Again}} --threads "${SLURM_CPUS_PER_TASK:-{{.Cores}}}" --trial "$SLURM_ARRAY_TASK_ID"
{{- end}}
`))

// A Scheduler is one that a script can be written for.
type Scheduler struct {
	one, ranks scriptFile // for trials of one process, and of several ranks
	Submit     string     // the command before the script's name
	unit       string     // of memory, in MiB
	// FolderAlone: the folder that the command is run in is all that trials have of this machine.
	FolderAlone bool
}

// A scriptFile is a script and its name in the experiment's folder.
type scriptFile struct {
	template *template.Template
	name     string
}

// Schedulers are all that there are, by name.
var Schedulers = map[string]Scheduler{
	"slurm": {scriptFile{slurmScript, "crossval.sbatch"}, scriptFile{slurmScript, "crossval.sbatch"}, "sbatch",
		"M", false},
	"kubernetes": {scriptFile{kubernetesJob, "crossval.job.yaml"},
		scriptFile{kubernetesMPIJobs, "crossval.mpijobs.yaml"}, "kubectl apply -f", "Mi", true},
}

// A Job is the trials of an experiment, and what each process of them needs.
type Job struct {
	Folder string   // that the command is run in
	Out    string   // the experiment's folder
	Again  []string // the command of all trials, in a shell's words
	Trials int
	Ranks  int // that carry out a trial together; 1: none
	Cores  int
	Memory int64 // bytes
	// PerCore asks for memory by the core, where nobody knows how many ranks a node has.
	PerCore  bool
	Hours    int
	Estimate string // how memory and hours came about, as comments of a script
}

// Script is the path and the text of a job's script.
func (s Scheduler) Script(j Job) (path, text string, err error) {
	file := s.one
	if j.Ranks > 1 {
		file = s.ranks
	}
	path = filepath.Join(j.Out, file.name)
	perCore := ""
	if j.PerCore {
		perCore = fmt.Sprintf("%d%s", j.Memory>>20/int64(j.Cores)+1, s.unit)
	}
	trials := make([]int, j.Trials)
	for n := range trials {
		trials[n] = n + 1
	}
	var b strings.Builder
	err = file.template.Execute(&b, map[string]any{
		"Folder": Quoted(j.Folder), "Script": Quoted(path), "Trials": j.Trials, "Numbers": trials,
		"Cores": j.Cores, "Memory": fmt.Sprintf("%d%s", j.Memory>>20, s.unit), "PerCore": perCore,
		"Hours": j.Hours, "Seconds": j.Hours * 3600, "Estimate": j.Estimate,
		"Ranks": j.Ranks, "Together": j.Ranks > 1,
		"Logs": slurmLogs(j.Out), "Again": strings.Join(j.Again, " "),
	})
	return path, b.String(), err
}

// slurmLogs is the name of a task's log as sbatch reads it: between double quotes a backslash makes
// the next character an ordinary one, and a percent sign stands for itself where there are two.
func slurmLogs(out string) string {
	name := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(out)
	name = filepath.Join(name, "slurm-%A_%a.log")
	if Quoted(out) == out {
		return name
	}
	return `"` + name + `"`
}

// Quoted is a word as a shell reads it.
func Quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
