#!/bin/bash
# Decodes the Job that "crossval --write kubernetes" writes, strictly, into the types of Kubernetes. They
# are fetched from the Go module proxy into a module of its own, which the program does not depend on.
set -euo pipefail
cd "$(dirname "$0")/../testdata/kubernetes"
go vet .
go test .
