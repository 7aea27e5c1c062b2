package main

import "text/template"

// kubernetesJob is an Indexed Job with an index for each trial. A test in a module of its own
// (testdata/kubernetes) decodes what it makes strictly into the types of k8s.io/api.
var kubernetesJob = template.Must(template.New("job").Parse(`# The trials of an experiment, an index of a Job each. Read this, change it, and submit it:
#
#   kubectl apply -f {{.Script}}
#
# The volume claim "voxsaw" is to hold, at its root, the folder that "voxsaw crossval --write
# kubernetes" was run in, with the prepared cases and the experiment's folder below it. All nodes write
# into it at once (ReadWriteMany). docs/cluster.md tells how the image is made.
#
# Trials that start from the same encoder wait for the first of them to pretrain it. When the Job is
# complete, the same command without --trial makes the table and the report:
#
#   {{.Again}}
apiVersion: batch/v1
kind: Job
metadata:
  name: voxsaw-crossval
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
      activeDeadlineSeconds: 86400
      # the program is told to end, and has so long to save
      terminationGracePeriodSeconds: 120
      containers:
        - name: voxsaw
          image: voxsaw:latest
          imagePullPolicy: IfNotPresent
          workingDir: /work
          command:
            - /bin/sh
            - -c
            # an index counts from 0, a trial from 1
            - exec {{.Again}} --threads {{.Cores}} --trial "$((JOB_COMPLETION_INDEX + 1))"
          resources:
            requests: {cpu: "{{.Cores}}", memory: {{.Memory}}}
            limits: {cpu: "{{.Cores}}", memory: {{.Memory}}}
          volumeMounts:
            - {name: work, mountPath: /work}
      volumes:
        - name: work
          persistentVolumeClaim:
            claimName: voxsaw
`))
