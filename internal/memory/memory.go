// Package memory says how much memory a process can take.
//
// Start at [Available]. [Process] is what of it this process may take: who reads a file asks it
// before there is room for what the header promises.
package memory

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Available is how many bytes this process can take without the machine swapping, or its control
// group killing it: the system's estimate, and no more than is left in any group that the process
// is in. Slurm, systemd and containers limit memory by such groups. 0 where the system does not
// say.
func Available() int64 { return available(os.DirFS("/")) }

// available is Available on a machine whose files are below root.
func available(root fs.FS) int64 {
	least := lines(root, "proc/meminfo")["MemAvailable:"] << 10
	for _, g := range groups(root) {
		for _, dir := range g.upwards() {
			if room, limited := g.room(root, dir); limited && (least == 0 || room < least) {
				least = room
			}
		}
	}
	return least
}

// A group is a control group for memory that the process is in.
type group struct {
	version
	mount string // where its hierarchy is mounted, relative to the root
	path  string // below that
}

// A version is how a version of control groups names its files and values.
type version struct {
	limits []string
	usage  string
	// in memory.stat: pages of files, and those of them that cannot be dropped
	cache, inCache    string
	fstype, subsystem string // of the mount
}

// The versions, as the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst describe them.
var (
	version1 = version{[]string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_cache", "total_shmem",
		"cgroup", "memory"}
	version2 = version{[]string{"memory.max", "memory.high"}, "memory.current", "file", "shmem", "cgroup2", ""}
)

// groups lists the groups of the process: on machines with both versions there may be one of each.
func groups(root fs.FS) (all []group) {
	data, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) { // hierarchy:subsystems:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		v := version1
		if parts[0] == "0" && parts[1] == "" {
			v = version2
		} else if !slices.Contains(strings.Split(parts[1], ","), version1.subsystem) {
			continue
		}
		if mount, top, ok := v.mounted(root); ok {
			below, inside := strings.CutPrefix(parts[2], strings.TrimSuffix(top, "/"))
			// the group lies outside of what this container sees
			if !inside || strings.Contains(below, "..") {
				below = ""
			}
			all = append(all, group{v, mount, below})
		}
	}
	return all
}

// mounted finds where a hierarchy is mounted, and which of its groups that shows.
func (v version) mounted(root fs.FS) (mount, top string, ok bool) {
	data, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return "", "", false
	}
	// id parent device root mount options... - type source options
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) < 3 || rest[0] != v.fstype {
			continue
		}
		if v.subsystem == "" || slices.Contains(strings.Split(rest[2], ","), v.subsystem) {
			return strings.TrimPrefix(unescape(fields[4]), "/"), unescape(fields[3]), true
		}
	}
	return "", "", false
}

// unescape reverses how mountinfo writes blanks.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// upwards lists the folders of the group and of all that it lies in: each has a limit of its own.
func (g group) upwards() (dirs []string) {
	for below := path.Clean("/" + g.path); ; below = path.Dir(below) {
		dirs = append(dirs, path.Join(g.mount, below))
		if below == "/" {
			return dirs
		}
	}
}

// room is what is left in a group: its limit less what is in use and cannot be dropped; at least 1.
func (g group) room(root fs.FS, dir string) (room int64, limited bool) {
	limit := int64(math.MaxInt64)
	for _, name := range g.limits {
		if n, ok := number(root, path.Join(dir, name)); ok {
			limit = min(limit, n)
		}
	}
	if limit > 1<<60 { // version 1 writes the largest number of pages for none
		return 0, false
	}
	used, _ := number(root, path.Join(dir, g.usage))
	stat := lines(root, path.Join(dir, "memory.stat"))
	dropped := max(stat[g.cache]-stat[g.inCache], 0)
	return max(limit-max(used-dropped, 0), 1), true
}

// number reads a file that holds one; "max" is none.
func number(root fs.FS, name string) (int64, bool) {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil && n >= 0
}

// lines reads a file whose lines have a name and a number each.
func lines(root fs.FS, name string) map[string]int64 {
	values := map[string]int64{}
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return values
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				values[fields[0]] = n
			}
		}
	}
	return values
}
