// What this package uses of NCCL 2: C for each constant of its header, F for each function.
// scripts/cuda-toolchain.py --nccl compares both with the header itself.
#ifdef C
C(NCCL_UNIQUE_ID_BYTES, 128)
C(ncclSuccess, 0)
C(ncclSystemError, 2)
C(ncclInvalidUsage, 5)
C(ncclRemoteError, 6)
C(ncclInProgress, 7)
C(ncclFloat32, 7)
C(ncclSum, 0)
#endif
#ifdef F
F(ncclResult_t, ncclGetVersion, (int *version))
F(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))
F(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank))
F(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
F(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
F(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))
F(ncclResult_t, ncclGroupStart, (void))
F(ncclResult_t, ncclGroupEnd, (void))
F(ncclResult_t, ncclAllReduce, (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
F(const char *, ncclGetErrorString, (ncclResult_t error))
F(const char *, ncclGetLastError, (ncclComm_t comm))
#endif
