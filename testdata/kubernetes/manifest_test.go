// Package kubernetes decodes the manifest that crossval --write kubernetes makes, strictly, into
// the types of Kubernetes. It is a module of its own, so that the program depends on none of these.
//
// A test of the program (crossval_shared.txtar) compares job.yaml with what the program writes. To
// make job.yaml again, run the command of that test and copy the file.
package kubernetes

import (
	"os"
	"testing"

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
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || *spec.CompletionMode != batch.IndexedCompletion || *spec.Completions != 4 || *spec.Parallelism != 4 {
		t.Errorf("a %s of %s with %d indices, %d at once", job.Kind, job.APIVersion, *spec.Completions, *spec.Parallelism)
	}
	// What the server asks of these together: an index is only tried again where pods are not, and
	// the same holds for a policy on how pods fail.
	if *spec.BackoffLimitPerIndex < 1 || spec.PodFailurePolicy == nil || pod.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("a trial is started again %d times; restart policy %s", *spec.BackoffLimitPerIndex, pod.RestartPolicy)
	}
	rule := spec.PodFailurePolicy.Rules[0]
	if rule.Action != batch.PodFailurePolicyActionIgnore || rule.OnPodConditions[0].Type != core.DisruptionTarget || rule.OnPodConditions[0].Status != core.ConditionTrue {
		t.Errorf("a pod whose node is drained: %+v", rule)
	}
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	for _, list := range []core.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		if list.Cpu().Value() != 1 || list.Memory().Value() != 2457<<20 {
			t.Errorf("%s cores and %s of memory, want those of the command", list.Cpu(), list.Memory())
		}
	}
	if len(c.VolumeMounts) != 1 || len(pod.Volumes) != 1 || c.VolumeMounts[0].Name != pod.Volumes[0].Name || c.VolumeMounts[0].MountPath != c.WorkingDir {
		t.Errorf("volumes %+v are mounted as %+v", pod.Volumes, c.VolumeMounts)
	}
}

// Strict means strict: a key with a mistake is found.
func TestMistakesAreFound(t *testing.T) {
	var job batch.Job
	if err := yaml.UnmarshalStrict([]byte("spec: {completion: 4}"), &job); err == nil {
		t.Error("a key that is not there was taken")
	}
}
