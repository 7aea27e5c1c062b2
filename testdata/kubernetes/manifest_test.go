// Package kubernetes decodes the manifests that crossval --write kubernetes makes, strictly, into
// the types of Kubernetes and of Kubeflow's mpi-operator. It is a module of its own, so that the
// program depends on none of these.
//
// A test of the program (crossval_shared.txtar) compares job.yaml and mpijobs.yaml with what the
// program writes. To make them again, run the commands of that test and copy the files.
package kubernetes

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	"github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/validation"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestManifest(t *testing.T) {
	text, err := os.ReadFile("job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job batch.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatal(err)
	}
	spec, pod := job.Spec, job.Spec.Template.Spec
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || *spec.CompletionMode != batch.IndexedCompletion ||
		*spec.Completions != 4 || *spec.Parallelism != 4 {
		t.Errorf("a %s of %s with %d indices, %d at once", job.Kind, job.APIVersion, *spec.Completions,
			*spec.Parallelism)
	}
	// What the server asks of these together: an index is only tried again where pods are not, and
	// the same holds for a policy on how pods fail.
	if *spec.BackoffLimitPerIndex < 1 || spec.PodFailurePolicy == nil || pod.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("a trial is started again %d times; restart policy %s", *spec.BackoffLimitPerIndex, pod.RestartPolicy)
	}
	rule := spec.PodFailurePolicy.Rules[0]
	if rule.Action != batch.PodFailurePolicyActionIgnore || rule.OnPodConditions[0].Type != core.DisruptionTarget ||
		rule.OnPodConditions[0].Status != core.ConditionTrue {
		t.Errorf("a pod whose node is drained: %+v", rule)
	}
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	if line := c.Command[2]; !strings.HasPrefix(line, "exec voxsaw crossval --config pods/crossval.yaml ") ||
		strings.Contains(line, "\n") || *pod.ActiveDeadlineSeconds != 7200 {
		t.Errorf("a trial is %q, for %d seconds", line, *pod.ActiveDeadlineSeconds)
	}
	for _, list := range []core.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		if list.Cpu().Value() != 1 || list.Memory().Value() != 2457<<20 {
			t.Errorf("%s cores and %s of memory, want those of the command", list.Cpu(), list.Memory())
		}
	}
	if len(c.VolumeMounts) != 1 || len(pod.Volumes) != 1 || c.VolumeMounts[0].Name != pod.Volumes[0].Name ||
		c.VolumeMounts[0].MountPath != c.WorkingDir {
		t.Errorf("volumes %+v are mounted as %+v", pod.Volumes, c.VolumeMounts)
	}
}

// The MPIJobs pass the operator's own checks, and start as many ranks as the trials are told of.
func TestMPIJobs(t *testing.T) {
	text, err := os.ReadFile("mpijobs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	jobs := strings.Split(string(text), "\n---\n")[1:]
	if len(jobs) != 2 {
		t.Fatalf("%d jobs, want one for each of 2 trials", len(jobs))
	}
	for n, text := range jobs {
		var job kubeflow.MPIJob
		if err := yaml.UnmarshalStrict([]byte(text), &job); err != nil {
			t.Fatal(err)
		}
		if job.APIVersion != kubeflow.SchemeGroupVersion.String() || job.Kind != kubeflow.Kind ||
			job.Name != fmt.Sprintf("voxsaw-crossval-%d", n+1) {
			t.Errorf("%s: a %s of %s", job.Name, job.Kind, job.APIVersion)
		}
		kubeflow.SetDefaults_MPIJob(&job)
		if errs := validation.ValidateMPIJob(&job); len(errs) > 0 {
			t.Errorf("the operator would refuse it: %v", errs)
		}
		launcher, workers := job.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher],
			job.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeWorker]
		if *workers.Replicas != 2 || *job.Spec.SlotsPerWorker != 1 {
			t.Errorf("%d workers of %d ranks", *workers.Replicas, *job.Spec.SlotsPerWorker)
		}
		l, w := launcher.Template.Spec.Containers[0], workers.Template.Spec.Containers[0]
		line := l.Command[2]
		for _, want := range []string{"exec mpirun -n 2 ", " --ranks 2 ", fmt.Sprintf(" --trial %d ", n+1)} {
			if !strings.Contains(line+" ", want) {
				t.Errorf("%q is not in %q", want, line)
			}
		}
		if list := w.Resources.Limits; list.Cpu().Value() != 1 || list.Memory().Value() != 2457<<20 {
			t.Errorf("%s cores and %s of memory for a rank, want those of the command", list.Cpu(), list.Memory())
		}
		if !reflect.DeepEqual(l.VolumeMounts, w.VolumeMounts) || l.WorkingDir != l.VolumeMounts[0].MountPath ||
			l.Image != w.Image {
			t.Errorf("the launcher has %+v, workers have %+v", l.VolumeMounts, w.VolumeMounts)
		}
	}
}

// Strict means strict: a key with a mistake is found.
func TestMistakesAreFound(t *testing.T) {
	if err := yaml.UnmarshalStrict([]byte("spec: {completion: 4}"), new(batch.Job)); err == nil {
		t.Error("a key that is not there was taken")
	}
	if err := yaml.UnmarshalStrict([]byte("spec: {slotPerWorker: 4}"), new(kubeflow.MPIJob)); err == nil {
		t.Error("a key that is not there was taken")
	}
}
