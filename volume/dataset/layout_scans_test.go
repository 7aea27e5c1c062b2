package dataset

import (
	"reflect"
	"testing"
)

// The steps that give labels the key of their scan, one by one.
func TestPairingSteps(t *testing.T) {
	scans := func(keys ...string) map[string][]candidate {
		m := map[string][]candidate{}
		for _, key := range keys {
			m[key] = []candidate{{path: key}}
		}
		return m
	}
	labels := func(keys ...string) map[string][]string {
		m := map[string][]string{}
		for n := 0; n < len(keys); n += 2 {
			m[keys[n]] = []string{keys[n+1]}
		}
		return m
	}
	for name, c := range map[string]struct {
		step         func(*pairing)
		scans        map[string][]candidate
		labels, want map[string][]string
	}{
		"capitals": {(*pairing).foldCase, scans("Liver"), labels("liver", "a"), labels("Liver", "a")},
		"accents of their own": {(*pairing).foldCase, scans("Pa\u0308tient_1"), labels("p\u00e4tient_1", "a"),
			labels("Pa\u0308tient_1", "a")},
		"numbers": {(*pairing).foldCase, scans("p_1_1"), labels("p_11", "a"), labels("p_11", "a")},
		"capitals, two scans": {(*pairing).foldCase, scans("Liver", "LIVER"), labels("liver", "a"),
			labels("liver", "a")},
		"capitals, has labels": {(*pairing).foldCase, scans("Liver"), labels("liver", "a", "Liver", "b"),
			labels("liver", "a", "Liver", "b")},
		"same key": {(*pairing).foldCase, scans("liver", "Liver"), labels("liver", "a"),
			labels("liver", "a")},
		"channel": {(*pairing).dropChannel, scans("x_0000"), labels("x", "a"), labels("x_0000", "a")},
		"channel, two of them": {(*pairing).dropChannel, scans("x_0000", "x_0001"), labels("x", "a"),
			labels("x", "a")},
		"channel, a scan of it": {(*pairing).dropChannel, scans("x", "x_0000"), labels("x", "a"), labels("x", "a")},
	} {
		p := &pairing{scans: c.scans, labels: c.labels}
		if c.step(p); !reflect.DeepEqual(p.labels, c.want) {
			t.Errorf("%s: %v, want %v", name, p.labels, c.want)
		}
	}
}
