package memory

import (
	"os"
	"runtime"
	"testing"
	"testing/fstest"
)

// The files are as they were read on machines of each kind; the figures were shortened.
func TestLimitsOfControlGroups(t *testing.T) {
	const (
		mib  = 1 << 20
		none = "9223372036854771712\n"
		v2   = "35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 " +
			"cgroup2 rw,nsdelegate,memory_recursiveprot\n"
		v1 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" +
			"34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n" +
			"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups": {map[string]string{}, 16000 * mib},
		"systemd: systemd-run -p MemoryMax=350M": {map[string]string{
			"proc/self/cgroup": "0::/user.slice/run-1.scope\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/user.slice/memory.max":                 "max\n",
			"sys/fs/cgroup/user.slice/run-1.scope/memory.max":     "367001600\n",
			"sys/fs/cgroup/user.slice/run-1.scope/memory.high":    "max\n",
			"sys/fs/cgroup/user.slice/run-1.scope/memory.current": "62914560\n",
			"sys/fs/cgroup/user.slice/run-1.scope/memory.stat":    "anon 10485760\nfile 52428800\nshmem 10485760\n",
		}, 330 * mib},
		"systemd: MemoryHigh": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/a/memory.max": "1048576000\n", "sys/fs/cgroup/a/memory.high": "524288000\n",
		}, 500 * mib},
		"Slurm: the job's limit is above the step's group": {map[string]string{
			"proc/self/cgroup":    "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
			"proc/self/mountinfo": v2,
			"sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max":                    "2097152000\n",
			"sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.current":                "1048576000\n",
			"sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.stat":                   "file 0\n",
			"sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/memory.max": "max\n",
		}, 1000 * mib},
		"Slurm on version 1": {map[string]string{
			"proc/self/cgroup": "9:cpuset:/x\n4:cpu,memory:/slurm/uid_1/job_7/step_0\n" +
				"1:name=systemd:/\n",
			"proc/self/mountinfo":                                          v1,
			"sys/fs/cgroup/memory/memory.limit_in_bytes":                   none,
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes": "367001600\n",
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.usage_in_bytes": "104857600\n",
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.stat": "cache " +
				"0\ntotal_cache 83886080\ntotal_shmem 0\n",
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0/memory.limit_in_bytes":   none,
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0/memory.usage_in_bytes":   "104857600\n",
			"sys/fs/cgroup/memory/slurm/uid_1/job_8/step_0/memory.limit_in_bytes":   "1000\n",
			"sys/fs/cgroup/memory/slurm/uid_1/job_7/step_0/t/memory.limit_in_bytes": "1000\n",
		}, 330 * mib},
		"a container with a namespace": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2, "sys/fs/cgroup/memory.max": "367001600\n",
		}, 350 * mib},
		"Docker on version 1": {map[string]string{
			"proc/self/cgroup": "4:memory:/docker/1234\n",
			"proc/self/mountinfo": "35 31 0:32 /docker/1234 " +
				"/sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "367001600\n",
		}, 350 * mib},
		"a group outside of the namespace": {map[string]string{
			"proc/self/cgroup": "0::/../../a\n", "proc/self/mountinfo": v2, "sys/fs/cgroup/memory.max": "367001600\n",
			"a/memory.max": "1\n",
		}, 350 * mib},
		"a mount with a blank": {map[string]string{
			"proc/self/cgroup":       "0::/a\n",
			"proc/self/mountinfo":    "35 24 0:30 / /my\\040groups rw - cgroup2 cgroup2 rw\n",
			"my groups/a/memory.max": "367001600\n",
		}, 350 * mib},
		"full": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2, "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "1000\n",
		}, 1},
	} {
		root := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal:       24000000 kB\nMemFree:       " +
			"  1000 kB\nMemAvailable:   16384000 kB\n")}}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := available(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := available(fstest.MapFS{}); got != 0 {
		t.Errorf("a system that does not say: %d", got)
	}
}

func TestThisMachine(t *testing.T) {
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		t.Skip("no /proc on ", runtime.GOOS)
	}
	if got := Available(); got < 1<<20 || got > 1<<50 {
		t.Errorf("%d bytes are available", got)
	}
}
