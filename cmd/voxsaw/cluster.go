package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: crossval --write, which leaves what a cluster's own scheduler needs in the
// experiment's folder. A person reads it, changes it, and submits it.

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
#SBATCH --job-name=voxsaw
#SBATCH --array=1-{{.Trials}}
{{- if .Together}}
# the ranks of a trial, on as many nodes as that takes; --nodes says how many
#SBATCH --ntasks={{.Ranks}}
#SBATCH --cpus-per-task={{.Cores}}
# on each node
{{- else}}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{.Cores}}
{{- end}}
#SBATCH --mem={{.Memory}}
# at most so long; a task that was stopped goes on where it stopped when it is submitted again
#SBATCH --time=24:00:00
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

// A cluster is a scheduler that a script can be written for.
type cluster struct {
	script scriptFile // for trials of one process
	ranks  scriptFile // for trials of several ranks
	submit string     // the command before the file's name
	unit   string     // of memory, in MiB
	usual  string     // memory where no limit is given
}

// A scriptFile is a script and its name in the experiment's folder.
type scriptFile struct {
	template *template.Template
	name     string
}

var clusters = map[string]cluster{
	"slurm":      {scriptFile{slurmScript, "crossval.sbatch"}, scriptFile{slurmScript, "crossval.sbatch"}, "sbatch", "M", "16G"},
	"kubernetes": {scriptFile{kubernetesJob, "crossval.job.yaml"}, scriptFile{kubernetesMPIJobs, "crossval.mpijobs.yaml"}, "kubectl apply -f", "Mi", "16Gi"},
}

// writeCluster writes the script for a scheduler, and the settings that it names.
func writeCluster(w io.Writer, o crossvalOptions, f crossvalFlags) error {
	to, known := clusters[f.write]
	if !known {
		return usagef("--write %s: there are slurm and kubernetes", f.write)
	}
	preview, err := experiment.Look(o.Plan)
	if err != nil {
		return err
	}
	if err := atomicfile.MakeFolder(f.out); err != nil {
		return err
	}
	settings, err := config.Marshal(&o)
	if err != nil {
		return err
	}
	file := to.script
	if f.together() > 1 {
		file = to.ranks
	}
	path := filepath.Join(f.out, "crossval.yaml")
	script := filepath.Join(f.out, file.name)
	here, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	cores, memory := o.Machine.Threads, to.usual
	if cores == 0 {
		cores = 8
	}
	again := []string{"voxsaw", "crossval", "--config", quoted(path), "--out", quoted(f.out)}
	if f.local.folder != "" {
		again = append(again, "--local", quoted(f.local.folder), "--local-size", f.local.size.String())
	}
	if limit := o.Memory.bytes(); limit > 0 {
		again = append(again, "--memory", o.Memory.String())
		// beside the network: scans, and the program itself
		memory = fmt.Sprintf("%d%s", (limit+limit/5)>>20, to.unit)
	}
	var text strings.Builder
	trials := make([]int, len(preview.Trials))
	for n := range trials {
		trials[n] = n + 1
	}
	if err := file.template.Execute(&text, map[string]any{
		"Folder": quoted(here), "Script": quoted(script), "Trials": len(preview.Trials), "Numbers": trials, "Cores": cores, "Memory": memory,
		"Ranks": f.together(), "Together": f.together() > 1,
		"Logs": filepath.Join(f.out, "slurm-%A_%a.log"), "Again": strings.Join(again, " "),
	}); err != nil {
		return err
	}
	if err := cmp.Or(spare(path, theText(settings)), spare(script, theText([]byte(text.String())))); err != nil {
		return err
	}
	if err := errors.Join(atomicfile.WriteBytes(path, settings), atomicfile.WriteBytes(script, []byte(text.String()))); err != nil {
		return err
	}
	say(w, "%s: %s; %s %s", script, numbers.Count(len(preview.Trials), "trial"), to.submit, quoted(script))
	return nil
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
