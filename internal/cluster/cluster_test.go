package cluster

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/voxsaw/voxsaw/internal/memory"
)

// The command of a Job is text, and the same, whatever the experiment's folder is called.
func TestCommandInManifests(t *testing.T) {
	const again = `voxsaw crossval --config 's2: #x/- "y" & *z/crossval.yaml' --out 's2: #x/- "y" & *z'`
	sizes := map[string]any{"Program": "voxsaw", "Label": "voxsaw", "Name": "crossval", "Verb": "crossval",
		"Again": again, "Script": "x", "Trials": 1, "Numbers": []int{1}, "Cores": 2,
		"Memory": "1Mi", "Seconds": 3600, "Estimate": "# none", "Ranks": 2}
	type container struct {
		Command []any `yaml:"command"`
	}
	type template struct {
		Template struct {
			Spec struct {
				Containers []container `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	}
	var job struct {
		Spec template `yaml:"spec"`
	}
	var mpiJob struct {
		Spec struct {
			Replicas map[string]template `yaml:"mpiReplicaSpecs"`
		} `yaml:"spec"`
	}
	var one, ranks strings.Builder
	if err := kubernetesJob.Execute(&one, sizes); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(one.String()), &job); err != nil {
		t.Fatal(err)
	}
	if err := kubernetesMPIJobs.Execute(&ranks, sizes); err != nil {
		t.Fatal(err)
	}
	_, document, _ := strings.Cut(ranks.String(), "\n---\n")
	if err := yaml.Unmarshal([]byte(document), &mpiJob); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of   template
		want string
	}{
		{job.Spec, "exec " + again + ` --threads 2 --trial "$((JOB_COMPLETION_INDEX + 1))"`},
		{mpiJob.Spec.Replicas["Launcher"], "exec mpirun -n 2 --bind-to none --mca odls_base_sigkill_timeout 50 " +
			again + " --threads 2 --ranks 2 --trial 1"},
	} {
		if command := c.of.Template.Spec.Containers[0].Command; len(command) != 3 || command[2] != c.want {
			t.Errorf("the command is %#v, want %q", command, c.want)
		}
	}
}

// A program of one's own that is built on the library is what its jobs run and are called after.
func TestOwnProgram(t *testing.T) {
	for name, want := range map[string][]string{
		"slurm": {"#SBATCH --job-name=my-tool\n", " 'My tool' crossval --config "},
		"kubernetes": {"  name: my-tool-crossval", "- name: my-tool\n", "image: my-tool",
			" 'My tool' crossval --config "},
	} {
		for _, ranks := range []int{1, 2} {
			j := Job{Program: "My tool", Verb: "crossval", Out: "study", Trials: 1, Ranks: ranks, Cores: 2}
			script, _, err := Schedulers[name].Files(j)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range want {
				if !strings.Contains(string(script.Text), text) {
					t.Errorf("%s, %d ranks: no %q in\n%s", name, ranks, text, script.Text)
				}
			}
		}
	}
}

// Memory and time of a trial, worked out by hand.
func TestEstimate(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		job   Job
		bytes int64
		hours int
	}{
		"little is rounded up": {Job{Cores: 8}, 2 * gib, 1},
		"a limit and a fifth":  {Job{Cores: 8, Limit: 10 * gib}, 12 * gib, 1},
		"a limit and a scan":   {Job{Cores: 8, Limit: 10 * gib, Needs: Needs{Voxels: 1e8}}, 10*gib + 5e9, 1},
		"training and scoring": {Job{Cores: 8, Needs: Needs{Memory: 10*gib - memory.Own, Voxels: 1e9}},
			(10*gib + 50e9) / 5 * 6, 1},
		"one hour on eight cores": {Job{Cores: 8, Needs: Needs{FLOPs: 8 * 100e9 * 3600}}, 2 * gib, 4},
		"eight hours on one":      {Job{Cores: 1, Needs: Needs{FLOPs: 8 * 100e9 * 3600}}, 2 * gib, 25},
	} {
		if bytes, hours, _ := c.job.estimate(); bytes != c.bytes || hours != c.hours {
			t.Errorf("%s: %d bytes and %d hours, want %d and %d", name, bytes, hours, c.bytes, c.hours)
		}
	}
}

// sbatchWord reads a word of a line of #SBATCH as Slurm's sbatch does: a backslash makes the next
// character an ordinary one, a blank ends a word that is not between quotes, and so does a #.
func sbatchWord(line string) string {
	var word []byte
	var quote byte
	escaped := false
	for n := 0; n < len(line); n++ {
		c := line[n]
		switch {
		case quote == 0 && (c == ' ' || c == '\t'):
			return string(word)
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
			continue
		case quote != 0 && c == quote:
			quote = 0
			continue
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
			continue
		case quote == 0 && c == '#':
			return string(word)
		}
		word = append(word, c)
	}
	return string(word)
}

func TestSlurmLogs(t *testing.T) {
	for out, want := range map[string]string{
		"study":         "study/slurm-%A_%a.log",
		"my study":      "my study/slurm-%A_%a.log",
		`a "b" it's #1`: `a "b" it's #1/slurm-%A_%a.log`,
		"half 50%":      "half 50%%/slurm-%A_%a.log",
	} {
		if got := sbatchWord(slurmLogs(out)); got != want {
			t.Errorf("%s: sbatch reads %q, want %q", out, got, want)
		}
	}
}
