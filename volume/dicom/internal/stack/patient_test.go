package stack

import "testing"

// Identifiers that tell patients apart have digests that differ; what stands where somebody removed
// them has none.
func TestPatientDigest(t *testing.T) {
	for _, id := range []string{"", " ", "0", "0000", "ANON", "anonymous", "Anonymized", "[REMOVED]", "XXX", "x-x",
		"N/A", "Patient ID", "de-identified", "---", "Unknown "} {
		if got := patientDigest(id, "H"); got != "" {
			t.Errorf("%q: %s, want none", id, got)
		}
	}
	seen := map[string]string{}
	for _, id := range []string{"1", "2", "10", "ANON1", "ANON2", "LIDC-IDRI-0001", "TCGA-01", "x1"} {
		got := patientDigest(id, "")
		if other := seen[got]; len(got) != 16 || other != "" || got == patientDigest(id, "H") ||
			got != patientDigest(" "+id+" ", "") {
			t.Errorf("%q: %q, that of %q", id, got, other)
		}
		seen[got] = id
	}
	// as sha256sum has it: printf '1\n' | sha256sum
	if got, want := patientDigest("1", ""), "4355a46b19d348dc"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
