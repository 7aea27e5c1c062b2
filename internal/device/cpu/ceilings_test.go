package cpu

import "testing"

func TestCeilings(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	c, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := c.Ceilings()
	t.Logf("%.0f GFLOP/s, L2 %.0f, L3 %.0f, memory %.0f GB/s", m.FMA/1e9, m.L2/1e9, m.L3/1e9, m.Memory/1e9)
	if !(m.FMA > 1e8 && m.L2 > 1e8 && m.L3 > 1e8 && m.Memory > 1e8) {
		t.Errorf("%+v: this machine is slower than any", m)
	}
}
