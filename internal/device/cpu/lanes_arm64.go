package cpu

// laneTables are the tables of this machine's instruction sets, by name.
func laneTables() map[string]*laneKernels { return map[string]*laneKernels{"neon": neonLanes} }
