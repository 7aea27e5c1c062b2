#!/usr/bin/env bash
# nnU-Net's label maps of the test of docs/compared.md, into WORK/nnunet-labels.
#
#     WORK=/tmp/hour python3 scripts/compared/measure.py nnunet-predict.json bash scripts/compared/nnunet-predict.sh
set -eu
. "$(dirname "$0")/nnunet-settings.sh"
nnUNetv2_predict -d 43 -i "$WORK/test/images" -o "$WORK/nnunet-labels" -c 3d_fullres -f all -p nnUNetPlansHour \
	-tr nnUNetTrainerHour -chk checkpoint_final.pth -device cpu --disable_tta -npp 1 -nps 1
