#!/usr/bin/env bash
# nnU-Net's label maps of the test of docs/compared.md, into WORK/nnunet-labels. MIRROR is empty where it
# predicts each window mirrored, too, as is its default.
#
#     WORK=/tmp/hour DATASET=43 MIRROR=--disable_tta python3 scripts/compared/measure.py nnunet-predict.json bash scripts/compared/nnunet-predict.sh
set -eu
. "$(dirname "$0")/nnunet-settings.sh"
nnUNetv2_predict -d "$DATASET" -i "$WORK/test/images" -o "$WORK/nnunet-labels" -c 3d_fullres -f all -p nnUNetPlansHour \
	-tr nnUNetTrainerHour -chk checkpoint_final.pth -device cpu $MIRROR -npp 1 -nps 1
