package mpi

import (
	"fmt"
	"strconv"
)

// A Launch is what the environment says of the program that has started this one.
type Launch struct {
	Ranks   int    // that were started together; 1 where there is no launcher
	Rank    int    // this one
	By      string // the variable that says so; "": none
	family  family // of MPI libraries that fit
	library string // that the user has named
}

// Told says whether there is a launcher at all.
func (l Launch) Told() bool { return l.By != "" }

// Joins says whether this process is to join an MPI job: a launcher has started several ranks, or
// the user has named a library.
func (l Launch) Joins() bool { return l.Ranks > 1 || l.library != "" }

// family is a kind of MPI library. One of another kind than the launcher's starts, too, and sees a
// single rank.
type family int

const (
	anyFamily family = iota
	mpichFamily
	openFamily
)

// launchers are the variables by which launchers tell how many ranks they have started, and which
// one this is. An mpirun inside a Slurm job counts, not Slurm, and so it comes first.
var launchers = []struct {
	size, rank string
	family     family
}{
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", openFamily}, // Open MPI's mpirun
	{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", mpichFamily},  // MVAPICH's mpirun_rsh
	// Hydra: MPICH, Intel MPI, MVAPICH; srun --mpi=pmi2
	{"PMI_SIZE", "PMI_RANK", mpichFamily},
	{"PALS_SIZE", "PALS_RANKID", mpichFamily}, // Cray
	{"FLUX_JOB_SIZE", "FLUX_TASK_RANK", anyFamily},
	{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", anyFamily}, // srun
}

// Variable names an MPI library to open, or "none": then each process works on its own, whatever
// has started it.
const Variable = "VOXSAW_MPI"

// Launched reads from the environment how many ranks were started. An error says that a launcher's
// variable is no number.
func Launched(env func(string) string) (Launch, error) {
	l := Launch{Ranks: 1}
	if l.library = env(Variable); l.library == "none" {
		l.library = ""
		return l, nil
	}
	for _, v := range launchers {
		text := env(v.size)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return l, fmt.Errorf("%s is %q, which is no number of ranks", v.size, text)
		}
		l.Ranks, l.By, l.family = n, v.size+"="+text, v.family
		l.Rank, _ = strconv.Atoi(env(v.rank)) // 0 where it is not told: errors come out then
		break
	}
	if l.family == anyFamily {
		switch { // srun's plug-in
		case env("PMIX_NAMESPACE") != "":
			l.family = openFamily
		case env("PMI_FD") != "" || env("PMI_RANK") != "":
			l.family = mpichFamily
		}
	}
	return l, nil
}

// candidates are the libraries to try, in this order. The first is that of the MPI 5.0 standard,
// then MPICH's under its names, then Open MPI's.
func (l Launch) candidates() []string {
	mpich, openMPI := []string{"libmpi_abi.so.1", "libmpich.so.12", "libmpi.so.12"}, []string{"libmpi.so.40"}
	switch {
	case l.library != "":
		return []string{l.library}
	case l.family == openFamily:
		return openMPI
	case l.family == mpichFamily:
		return mpich
	}
	return append(mpich, openMPI...)
}
