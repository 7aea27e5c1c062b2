//go:build unix

// Command many measures what very many scans cost: it writes made-up scans of 24x24x24 voxels with
// labels, inspects, prepares and verifies them, trains on them, is interrupted and goes on, with
// more scans each time.
//
//	go run ./scripts/many                                  # 1,000 and 10,000 scans
//	go run ./scripts/many --sizes 1000,10000,100000        # half an hour on two cores, 10 GB of disk
//
// It prints a table in Markdown: CPU time (user and system), time of the clock and memory of each
// command, and with which power of the number of scans these grow. It ends with 1 if a power is
// above 1.05, and above that of cat, which reads the same files on the same machine. Commands that
// take less than ten seconds, and can be carried out again, are: the median of five counts.
// Everything is deleted at the end. Linux only: memory is read from /proc.
//
// Few scans fit into the page cache, many do not. So it is emptied before each command, which only
// root may do; where that cannot be, it says so.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// most is the largest power of the number of scans with which a cost may grow.
const most = 1.05

func main() {
	sizes := flag.String("sizes", "1000,10000", "numbers of scans, rising")
	dir := flag.String("dir", "", "folder to work in, with room for 100 kB a scan; empty: a temporary one")
	program := flag.String("program", "", "the program; empty: it is built")
	untrained := flag.Bool("untrained", false, "without the two halves of a training, which take half of the time")
	flag.Parse()
	numbers, err := parseSizes(*sizes)
	if err != nil {
		fmt.Fprintln(os.Stderr, "many: --sizes:", err)
		os.Exit(2)
	}
	if err := measure(os.Stdout, *dir, *program, numbers, !*untrained); err != nil {
		fmt.Fprintln(os.Stderr, "many:", err)
		os.Exit(1)
	}
}

func parseSizes(text string) (sizes []int, err error) {
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 10 {
			return nil, fmt.Errorf("%q is no number of scans from 10 on", field)
		}
		if len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("%d comes after %d: give them rising", n, sizes[len(sizes)-1])
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// measure carries all out for each number of scans, and prints the table.
func measure(w io.Writer, dir, program string, sizes []int, training bool) error {
	work, err := os.MkdirTemp(dir, "voxsaw-many-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if program == "" {
		program = filepath.Join(work, "voxsaw")
		if text, err := exec.Command("go", "build", "-o", program, "./cmd/voxsaw").CombinedOutput(); err != nil {
			return fmt.Errorf("building the program: %w\n%s", err, text)
		}
	}
	all := scans{filepath.Join(work, "all"), sizes[len(sizes)-1]}
	if err := all.write(); err != nil {
		return err
	}
	t := table{sizes: sizes}
	for _, n := range sizes {
		s := site{folder: filepath.Join(work, strconv.Itoa(n)), program: program, all: all, scans: n,
			training: training}
		costs, err := s.run()
		if err != nil {
			return fmt.Errorf("%d scans: %w", n, err)
		}
		t.costs = append(t.costs, costs)
		if err := os.RemoveAll(s.folder); err != nil {
			return err
		}
	}
	if err := t.print(w); err != nil {
		return err
	}
	return t.judge()
}

// A site is a folder with so many scans.
type site struct {
	folder, program string
	all             scans
	scans           int
	training        bool // also the two halves of a training
}

func (s site) in(name string) string { return filepath.Join(s.folder, name) }

// A cost is what a command has taken.
type cost struct {
	name   string
	cpu    time.Duration // user and system
	user   time.Duration
	wall   time.Duration
	memory int64 // bytes of its own at most, without files that are mapped
}

// reading is the first of the commands: cat reads all files, and nothing else is done. On some
// machines that alone grows faster than the files do, and no command that reads them grows slower.
const reading = "cat"

// batch is how many scans a training step sees: every scan is drawn about once in all, and each of
// those that are held out is validated on ten times.
const batch = 50

func (s site) run() ([]cost, error) {
	if err := s.all.link(s.in("scans"), s.scans); err != nil {
		return nil, err
	}
	steps := max(20, s.scans/batch)
	train := []string{"finetune", "--data", s.in("prepared"), "--channels", "2", "--levels", "1", "--crop", "16",
		"--labels", "2", "--batch", strconv.Itoa(batch), "--hold-out", "0.01", "--validate-every",
		strconv.Itoa(steps / 10)}
	commands := []struct {
		name  string
		stop  int  // steps after which it is interrupted; 0: never
		again bool // it does the same when it is carried out again
		args  []string
	}{
		{reading, 0, true, nil},
		{"inspect", 0, true, []string{"inspect", s.in("scans")}},
		{"prepare", 0, false, []string{"prepare", s.in("scans"), "--out", s.in("prepared")}},
		{"verify", 0, true, []string{"verify", s.in("prepared")}},
		{"train, one step of one scan", 0, true, append(train, "--hold-out", "0", "--batch", "1", "--steps", "1",
			"--force", "--out", s.in("one"))},
		{"train, first half", steps / 2, false, append(train, "--steps", strconv.Itoa(steps), "--out", s.in("run"))},
		{"resume, second half", 0, false, []string{"finetune", "--resume", "--out", s.in("run")}},
	}
	if !s.training {
		commands = commands[:5]
	}
	var costs []cost
	for _, c := range commands {
		fmt.Fprintf(os.Stderr, "%d scans: %s\n", s.scans, c.name)
		taken, err := s.command(c.stop, c.args)
		if err == nil && c.again && taken.cpu < short {
			taken, err = s.median(taken, c.args)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		taken.name = c.name
		fmt.Fprintf(os.Stderr, "%d scans: %s took %.1f s of CPU time, %.0f MB\n", s.scans, c.name, cpuOf(taken),
			memoryOf(taken)/1e6)
		costs = append(costs, taken)
	}
	return costs, nil
}

// scans are the scans and their labels, which all sizes share: a smaller one has links to the first
// of them.
type scans struct {
	folder string
	n      int
}

const (
	imagesFolder = "imagesTr"
	labelsFolder = "labelsTr"
)

func scanName(n int) string { return fmt.Sprintf("case_%06d.nii", n+1) }

// write writes the scans: of at most 500 patients, since to make up one takes longer than to
// prepare a scan. All scans differ, in a voxel at the least.
func (s scans) write() error {
	fmt.Fprintf(os.Stderr, "writing %d scans\n", s.n)
	for _, folder := range []string{imagesFolder, labelsFolder} {
		if err := os.MkdirAll(filepath.Join(s.folder, folder), 0o755); err != nil {
			return err
		}
	}
	const most = 500
	patients := min(s.n, most)
	for patient := range patients {
		image, labels, err := newPatient(s.folder, uint64(patient+1))
		if err != nil {
			return err
		}
		for n := patient; n < s.n; n += patients {
			lastVoxel := image[len(image)-2:] // HU
			binary.LittleEndian.PutUint16(lastVoxel, uint16(n/patients))
			if err := errors.Join(
				os.WriteFile(filepath.Join(s.folder, imagesFolder, scanName(n)), image, 0o644),
				os.WriteFile(filepath.Join(s.folder, labelsFolder, scanName(n)), labels, 0o644),
			); err != nil {
				return err
			}
		}
	}
	return nil
}

// newPatient is the content of a file of a scan, int16 and not compressed, and of one of its
// labels.
func newPatient(folder string, number uint64) (image, labels []byte, err error) {
	v, l, err := phantom.New(number, phantom.Options{Shape: [3]int{24, 24, 24}})
	if err != nil {
		return nil, nil, err
	}
	l.Names = nil // as in most files
	path := filepath.Join(folder, "patient.nii")
	defer os.Remove(path)
	if err := nifti.Write(path, v); err != nil {
		return nil, nil, err
	}
	if image, err = os.ReadFile(path); err != nil {
		return nil, nil, err
	}
	if err := nifti.WriteLabels(path, l); err != nil {
		return nil, nil, err
	}
	labels, err = os.ReadFile(path)
	return image, labels, err
}

// link makes a data set of the first n scans.
func (s scans) link(to string, n int) error {
	for _, folder := range []string{imagesFolder, labelsFolder} {
		if err := os.MkdirAll(filepath.Join(to, folder), 0o755); err != nil {
			return err
		}
		for i := range n {
			if err := os.Link(filepath.Join(s.folder, folder, scanName(i)),
				filepath.Join(to, folder, scanName(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

// short is a time of which two measurements may differ by more than powers do.
const short = 10 * time.Second

// median carries a command out four more times, and returns the cost with the median CPU time.
func (s site) median(first cost, args []string) (cost, error) {
	all := []cost{first}
	for range 4 {
		c, err := s.command(0, args)
		if err != nil {
			return cost{}, err
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(a.cpu, b.cpu) })
	return all[len(all)/2], nil
}

// forget empties the page cache: all commands find their files on the disk.
func forget() error {
	syscall.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// command runs the program, or without arguments what only reads, and interrupts it after so many
// steps of the training; 0: never.
func (s site) command(stop int, args []string) (cost, error) {
	if err := forget(); err != nil {
		fmt.Fprintln(os.Stderr, "many: the page cache is not emptied, and costs are not comparable:", err)
	}
	cmd := exec.Command(s.program, args...)
	if args == nil {
		cmd = exec.Command("sh", "-c", `find "$0" -type f | sort | xargs cat >/dev/null`, s.in("scans"))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return cost{}, err
	}
	w := watch{pid: cmd.Process.Pid, ended: make(chan struct{})}
	var watching sync.WaitGroup
	watching.Go(func() { w.run(filepath.Join(s.in("run"), "metrics.csv"), stop) })
	err := cmd.Wait()
	wall := time.Since(begin)
	close(w.ended)
	watching.Wait()
	if stop > 0 && cmd.ProcessState.ExitCode() == 130 {
		err = nil
	} else if stop > 0 && err == nil {
		err = errors.New("it ended before it was interrupted")
	}
	if err != nil {
		return cost{}, fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	state := cmd.ProcessState
	return cost{cpu: state.UserTime() + state.SystemTime(), user: state.UserTime(), wall: wall, memory: w.memory}, nil
}

// A watch looks at a process until it has ended.
type watch struct {
	pid    int
	ended  chan struct{}
	memory int64 // bytes, the most that was seen
}

// run reads the memory of the process, and interrupts it once its log has so many steps.
func (w *watch) run(log string, stop int) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.ended:
			return
		case <-tick.C:
			w.memory = max(w.memory, anonymous(w.pid))
			if stop == 0 {
				continue
			}
			if text, err := os.ReadFile(log); err == nil && bytes.Count(text, []byte("\n")) > stop {
				syscall.Kill(w.pid, syscall.SIGTERM)
				stop = 0
			}
		}
	}
}

// anonymous is the memory of a process that is no file's, in bytes; 0 where it has ended.
func anonymous(pid int) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "RssAnon:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64) // kB
			return n << 10
		}
	}
	return 0
}

// A table is the costs of every command at every size.
type table struct {
	sizes []int
	costs [][]cost // by size, then by command
}

// power is with which power of the number of scans a cost has grown since the size before.
func (t table) power(size int, of func(cost) float64, command int) float64 {
	grown := of(t.costs[size][command]) / of(t.costs[size-1][command])
	return math.Log(grown) / math.Log(float64(t.sizes[size])/float64(t.sizes[size-1]))
}

func cpuOf(c cost) float64    { return c.cpu.Seconds() }
func userOf(c cost) float64   { return c.user.Seconds() }
func memoryOf(c cost) float64 { return float64(c.memory) }

func (t table) print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out,
		"| command | scans | CPU | of it user | CPU a scan | clock | memory | power, CPU | power, user | power, "+
			"memory |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for command := range t.costs[0] {
		for size, n := range t.sizes {
			c := t.costs[size][command]
			powers := " |  | "
			if size > 0 {
				powers = fmt.Sprintf("%.2f | %.2f | %.2f", t.power(size, cpuOf, command),
					t.power(size, userOf, command), t.power(size, memoryOf, command))
			}
			fmt.Fprintf(out, "| %s | %d | %.1f s | %.1f s | %.2f ms | %.0f s | %.0f MB | %s |\n", c.name, n, cpuOf(c),
				userOf(c), 1e3*cpuOf(c)/float64(n),
				c.wall.Seconds(), memoryOf(c)/1e6, powers)
		}
	}
	return out.Flush()
}

// judge is an error if a cost grows faster than it may: CPU time also as fast as reading the files
// does on this machine.
func (t table) judge() error {
	var all []error
	for size := 1; size < len(t.sizes); size++ {
		for command, c := range t.costs[size] {
			if c.name == reading {
				continue
			}
			fastest := float64(most)
			if t.costs[size][0].name == reading {
				fastest = max(fastest, t.power(size, cpuOf, 0))
			}
			for _, cost := range []struct {
				what    string
				of      func(cost) float64
				fastest float64
			}{{"CPU time", cpuOf, fastest}, {"memory", memoryOf, most}} {
				if p := t.power(size, cost.of, command); p > cost.fastest {
					all = append(all,
						fmt.Errorf("%s: from %d to %d scans %s grows with the power %.2f, at most %.2f is allowed",
							c.name, t.sizes[size-1], t.sizes[size], cost.what, p, cost.fastest))
				}
			}
		}
	}
	return errors.Join(all...)
}
