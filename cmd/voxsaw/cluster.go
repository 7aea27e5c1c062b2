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

// slurmScript is a job array with a task for each trial.
var slurmScript = template.Must(template.New("sbatch").Parse(`#!/bin/bash
# The trials of an experiment, a task each. Read this, change it, and submit it:
#
#   cd {{.Folder}}
#   sbatch {{.Script}}
#
# Trials that start from the same encoder wait for the first of them to pretrain it. When all tasks
# have ended, the same command without --trial makes the table and the report:
#
#   {{.Again}}
#
#SBATCH --job-name=voxsaw
#SBATCH --array=1-{{.Trials}}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{.Cores}}
#SBATCH --mem={{.Memory}}
# at most so long; a task that was stopped goes on where it stopped when it is submitted again
#SBATCH --time=24:00:00
#SBATCH --requeue
# two minutes before the end the program is told to save
#SBATCH --signal=B:TERM@120
#SBATCH --output={{.Logs}}

exec {{.Again}} --threads "${SLURM_CPUS_PER_TASK:-{{.Cores}}}" --trial "$SLURM_ARRAY_TASK_ID"
`))

// A cluster is a scheduler that a script can be written for.
type cluster struct {
	template *template.Template
	file     string // in the experiment's folder
	submit   string // the command before the file's name
	unit     string // of memory, in MiB
	usual    string // memory where no limit is given
}

var clusters = map[string]cluster{
	"slurm":      {slurmScript, "crossval.sbatch", "sbatch", "M", "16G"},
	"kubernetes": {kubernetesJob, "crossval.job.yaml", "kubectl apply -f", "Mi", "16Gi"},
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
	path := filepath.Join(f.out, "crossval.yaml")
	script := filepath.Join(f.out, to.file)
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
	if err := to.template.Execute(&text, map[string]any{
		"Folder": quoted(here), "Script": quoted(script), "Trials": len(preview.Trials), "Cores": cores, "Memory": memory,
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
