package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"time"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/mpi"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// This file: what doctor tells of the ranks of an MPI job.

// rankDiagnosis is what the ranks have to say together.
type rankDiagnosis struct {
	Library string       `json:"library"`
	Latency float64      `json:"latency_seconds"`  // of a sum of one number
	Rate    float64      `json:"bytes_per_second"` // of a rank's values, in a sum of many
	Ranks   []oneOfRanks `json:"ranks"`
}

// oneOfRanks is a rank: where it runs, and what it may use.
type oneOfRanks struct {
	Host    string `json:"host"`
	Process int    `json:"process"`
	Cores   int    `json:"cores"`
	Memory  int64  `json:"memory_bytes"` // its share of what is available
	Device  string `json:"device"`
}

// How a sum is measured: how often one number, and how often many, which are as large as a bucket
// of gradients.
const (
	latencyRounds = 200
	rateRounds    = 8
	rateBytes     = 16 << 20
)

// diagnoseRanks measures the sum and asks all ranks. Every rank calls it.
func diagnoseRanks(j *job, device string) (*rankDiagnosis, error) {
	own, err := json.Marshal(oneOfRanks{
		Host: j.world.Hosts()[j.world.Rank()], Process: j.place.Others[j.world.Rank()].PID,
		Cores: runtime.GOMAXPROCS(0), Device: device,
		Memory: memory.Available() / int64(memorySharers),
	})
	if err != nil {
		return nil, err
	}
	all, err := j.world.Gather(own)
	if err != nil {
		return nil, err
	}
	d := &rankDiagnosis{Library: j.world.Library(), Ranks: make([]oneOfRanks, len(all))}
	for rank, text := range all {
		if err := json.Unmarshal(text, &d.Ranks[rank]); err != nil {
			return nil, err
		}
	}
	latency, err := timedSum(j.world, 1, latencyRounds)
	if err != nil {
		return nil, err
	}
	many, err := timedSum(j.world, rateBytes/4, rateRounds)
	if err != nil {
		return nil, err
	}
	d.Latency, d.Rate = latency.Seconds(), rateBytes/many.Seconds()
	return d, nil
}

// timedSum is the mean time of a sum over the ranks of so many numbers, after one to warm up.
func timedSum(w *mpi.World, n, rounds int) (time.Duration, error) {
	values := make([]float32, n)
	if err := w.Sum(values); err != nil {
		return 0, err
	}
	start := time.Now()
	for range rounds {
		if err := w.Sum(values); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(rounds), nil
}

// print writes the ranks as a table.
func (d *rankDiagnosis) print(w io.Writer) error {
	t := terminal.TableData{
		Title: fmt.Sprintf("%d ranks, %s: a sum of one number takes %.1f us, "+
			"one of %s %.2f GB/s of each rank's numbers",
			len(d.Ranks), d.Library, 1e6*d.Latency, terminal.Bytes(rateBytes), d.Rate/1e9),
		Header: []string{"rank", "host", "process", "cores", "memory", "device"},
		Right:  []bool{true, false, true, true, true, false},
	}
	for rank, r := range d.Ranks {
		t.Rows = append(t.Rows, []string{strconv.Itoa(rank), r.Host, strconv.Itoa(r.Process), strconv.Itoa(r.Cores),
			terminal.Bytes(r.Memory), r.Device})
	}
	return terminal.Table(w, t)
}
