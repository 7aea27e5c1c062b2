#!/usr/bin/env bash
# nnU-Net's hour of docs/compared.md: plan, preprocess, train. WORK is draw.py's folder, DATASET its number;
# TARGET is the memory target in GB.
#
#     WORK=/tmp/hour DATASET=43 TARGET=0.25 python3 scripts/compared/measure.py nnunet.json bash scripts/compared/nnunet.sh
set -eu
export HOUR_ENDS=$(($(date +%s) + 3600))
. "$(dirname "$0")/nnunet-settings.sh"
nnUNetv2_extract_fingerprint -d "$DATASET" -np 1
nnUNetv2_plan_experiment -d "$DATASET" -gpu_memory_target "$TARGET" -overwrite_plans_name nnUNetPlansHour
nnUNetv2_preprocess -d "$DATASET" -c 3d_fullres -plans_name nnUNetPlansHour -np 1
# Augmentation in the training's own process: no other could run beside it.
nnUNet_n_proc_DA=0 nnUNetv2_train "$DATASET" 3d_fullres all -p nnUNetPlansHour -tr nnUNetTrainerHour -device cpu
