package cluster

import "text/template"

// This file: the scripts for Kubernetes. A test in a module of its own
// (testdata/kubernetes) decodes it strictly into the types of k8s.io/api and of Kubeflow's
// mpi-operator.

// kubernetesVolume says how the volume of both kinds of manifest is to be filled.
const kubernetesVolume = `# The volume claim "voxsaw" is to hold, at its root, the folder that "{{.Program}} {{.Verb}} --write
# kubernetes" was run in, with the prepared cases and the experiment's folder below it. All nodes write
# into it at once (ReadWriteMany). docs/cluster.md tells how the image is made.`

// kubernetesJob is an Indexed Job with an index for each trial.
var kubernetesJob = template.Must(
	template.New("job").
		Parse(`# The trials of an experiment, an index of a Job each. Read this, change it, and submit it:
#
#   kubectl apply -f {{.Script}}
#
` + kubernetesVolume + `
#
# Trials that start from the same encoder wait for the first of them to pretrain it. When the Job is
# complete, the same command without --trial makes the table and the report:
#
#   {{.Again}}
#
{{.Estimate}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{.Label}}-{{.Name}}
spec:
  completionMode: Indexed
  completions: {{.Trials}}
  # at once; the scheduler starts as many as there is room for
  parallelism: {{.Trials}}
  # a trial goes on where it stopped when it is started again
  backoffLimitPerIndex: 3
  podFailurePolicy:
    rules:
      # a node that is drained or taken away is not the trial's failure
      - action: Ignore
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
  template:
    spec:
      restartPolicy: Never
      # at most so long, in seconds; then it is stopped, and goes on in a new pod
      activeDeadlineSeconds: {{.Seconds}}
      # the program is told to end, and has so long to save
      terminationGracePeriodSeconds: 120
      containers:
        - name: {{$.Label}}
          image: {{$.Label}}:latest
          imagePullPolicy: IfNotPresent
          workingDir: /work
          command:
            - /bin/sh
            - -c
            # an index counts from 0, a trial from 1
            - >-
              exec {{.Again}} --threads {{.Cores}} --trial "$((JOB_COMPLETION_INDEX + 1))"
          resources:
            requests: {cpu: "{{.Cores}}", memory: {{.Memory}}}
            limits: {cpu: "{{.Cores}}", memory: {{.Memory}}}
          volumeMounts:
            - {name: work, mountPath: /work}
      volumes:
        - name: work
          persistentVolumeClaim:
            claimName: voxsaw
`),
)

// kubernetesRank and kubernetesRankVolume are the same for the launcher and the ranks of an MPIJob.
const (
	kubernetesRank = `            - name: {{$.Label}}
              image: {{$.Label}}-mpi:latest
              imagePullPolicy: IfNotPresent
              workingDir: /work
              securityContext: {runAsUser: 1000}
`
	kubernetesRankVolume = `              volumeMounts:
                - {name: work, mountPath: /work}
          volumes:
            - name: work
              persistentVolumeClaim:
                claimName: voxsaw
`
)

// kubernetesMPIJobs is an MPIJob of Kubeflow's mpi-operator for each trial, whose ranks are pods of
// their own.
var kubernetesMPIJobs = template.Must(
	template.New("mpijobs").
		Parse(`# The trials of an experiment, of {{.Ranks}} ranks each: an MPIJob of Kubeflow's mpi-operator for every
# trial. Read this, change it, and submit it, or some of the jobs:
#
#   kubectl apply -f {{.Script}}
#
` + kubernetesVolume + `
#
# A cluster that is too small for all ranks of all jobs at once needs a scheduler that starts the pods of
# a job together (the operator's gang scheduling, or Kueue), or fewer jobs at a time. Trials that start
# from the same encoder wait for the first of them to pretrain it. When all jobs have succeeded, the same
# command on one process makes the table and the report:
#
#   {{.Again}}
#
{{.Estimate}}
{{- range .Numbers}}
---
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: {{$.Label}}-{{$.Name}}-{{.}}
spec:
  slotsPerWorker: 1
  mpiImplementation: OpenMPI
  sshAuthMountPath: /home/voxsaw/.ssh
  launcherCreationPolicy: WaitForWorkersReady
  runPolicy:
    # workers end with their trial
    cleanPodPolicy: All
    # a trial goes on where it stopped when it is started again
    backoffLimit: 3
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          # at most so long, in seconds; then it is stopped, and goes on in a new pod
          activeDeadlineSeconds: {{$.Seconds}}
          # the ranks are told to end, and have so long to save
          terminationGracePeriodSeconds: 120
          containers:
` + kubernetesRank + `              command:
                - /bin/sh
                - -c
                # Open MPI waits so many seconds before it tells the ranks to end, and as many before it kills them
                - >-
                  exec mpirun -n {{$.Ranks}} --bind-to none --mca odls_base_sigkill_timeout 50
                  {{$.Again}} --threads {{$.Cores}} --ranks {{$.Ranks}} --trial {{.}}
              resources:
                requests: {cpu: 100m, memory: 256Mi}
                limits: {cpu: "1", memory: 256Mi}
` + kubernetesRankVolume + `    Worker:
      replicas: {{$.Ranks}}
      restartPolicy: OnFailure
      template:
        spec:
          terminationGracePeriodSeconds: 120
          containers:
` + kubernetesRank + `              command: [/usr/sbin/sshd, -De, -f, /home/voxsaw/sshd_config]
              readinessProbe:
                tcpSocket: {port: 2222}
                periodSeconds: 2
              resources:
                requests: {cpu: "{{$.Cores}}", memory: {{$.Memory}}}
                limits: {cpu: "{{$.Cores}}", memory: {{$.Memory}}}
` + kubernetesRankVolume + `{{- end}}
`),
)
