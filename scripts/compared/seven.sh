#!/usr/bin/env bash
# One fold of docs/results/nnunet-pretrained.md: nnU-Net with seven labelled patients, without and with an encoder that
# voxsaw pretrained on the fold's 66 scans. What is there already is kept, so that the same command goes on.
#
#     WORK=/tmp/seven VOXSAW=./voxsaw CORE=1 bash scripts/compared/seven.sh FOLD OPENKBP
#
# CORE is one core: pinned to it later, PyTorch waits for a second thread, and a step takes 6 s, not 2.5.
# CHECK=8 has nnU-Net predict eight of the test scans, too, and counts the voxels that differ from voxsaw's.
# OPENKBP has imagesTr and labelsTr. $WORK/scores then has the scores of each test patient, and time and memory of what
# was run. nnU-Net's commands are in PATH; as root, for measure.py raises the priority.
set -eu
fold=$1 source=$(realpath "$2") voxsaw=$(realpath "$VOXSAW")
. "$(dirname "$0")/nnunet-settings.sh"
export nnUNet_compile=f nnUNet_n_proc_DA=1 STEPS=${STEPS:-900} SEED=$fold
number=$((60 + fold)) name=Seven plans=nnUNetPlansSeven
dataset=Dataset0${number}_$name at=$WORK/fold-$fold
measured() { # measured RESULT COMMAND... runs it on its core, and keeps time and memory; not again if they are there
  [ -e "$WORK/scores/fold-$fold-$1.json" ] && return
  python3 "$here/measure.py" "$at/$1.json" "${@:2}"
  mv "$at/$1.json" "$WORK/scores/fold-$fold-$1.json"
}
mkdir -p "$WORK/scores" "$at"
python3 - "$here/../../docs/results/nnunet-pretrained/patients.json" "$fold" "$source" "$nnUNet_raw/$dataset" "$at" <<'PYTHON'
import json
import os
import sys

patients, fold, source, raw, at = sys.argv[1:]
drawn = json.load(open(patients))[int(fold) - 1]
for folder, cases in ((raw, drawn["labelled"]), (f"{at}/train", drawn["train"]), (f"{at}/test", drawn["test"])):
    for case in cases:
        for group, end in (("imagesTr", "_0000"), ("labelsTr", "")):
            if folder == f"{at}/train" and group == "labelsTr":
                continue  # pretraining has no labels
            os.makedirs(f"{folder}/{group}", exist_ok=True)
            if not os.path.lexists(link := f"{folder}/{group}/{case}{end}.nii.gz"):
                os.symlink(f"{source}/{group}/{case}.nii.gz", link)
structures = ["background", "brainstem", "spinal_cord", "right_parotid", "left_parotid", "mandible"]
with open(f"{raw}/dataset.json", "w") as f:
    json.dump({"channel_names": {"0": "CT"}, "labels": {name: label for label, name in enumerate(structures)},
               "numTraining": len(drawn["labelled"]), "file_ending": ".nii.gz"}, f)
PYTHON
export dataset number plans
measured plan bash -c 'nnUNetv2_extract_fingerprint -d "$number" -np 1 &&
  nnUNetv2_plan_experiment -d "$number" -gpu_memory_target 0.25 -overwrite_plans_name "$plans" &&
  nnUNetv2_preprocess -d "$number" -c 3d_lowres -plans_name "$plans" -np 1'
network=$nnUNet_preprocessed/$dataset/$plans.json:3d_lowres
measured prepare "$voxsaw" prepare "$at/train/imagesTr" --plans "$network" --out "$at/prepared" --force
[ -e "$WORK/scores/fold-$fold-pretrain.json" ] || rm -rf "$at/encoder"
measured pretrain "$voxsaw" pretrain --data "$at/prepared" --network "$network" --grids 2x2x2,3x3x3 --crop 60x54x60 \
  --patch 16x16x16 --head attention --hidden 128 --rounds 3 --missing 0.3 --identical --intensity 0.1 --features 256 \
  --batch 2 --steps "${PRETRAIN:-2400}" --warmup 50 --clip 5 --lr 0.01 --seed "$fold" --threads 1 --out "$at/encoder"
[ -e "$at/encoder.pth" ] || "$voxsaw" convert "$at/encoder" --to nnunet-pretrained --out "$at/encoder.pth"
for arm in scratch encoder; do
  start=()
  [ $arm = scratch ] || start=(-pretrained_weights "$at/encoder.pth")
  export nnUNet_results=$at/$arm
  # Augmentation in the training's own process: no other could run beside it.
  measured "$arm" env nnUNet_n_proc_DA=0 nnUNetv2_train "$number" 3d_lowres all -p "$plans" -tr nnUNetTrainerSteps \
    -device cpu "${start[@]}"
  measured "$arm-predict" "$voxsaw" predict "$at/test/imagesTr" --out "$at/$arm-labels" --threads 1 --mirror none --components all --force \
    --checkpoint "$at/$arm/$dataset/nnUNetTrainerSteps__${plans}__3d_lowres"
  rm -rf "$at/$arm-scores"
  "$voxsaw" evaluate "$at/$arm-labels" "$at/test/labelsTr" --tolerance 2 --out "$at/$arm-scores"
  cp "$at/$arm-scores/scores.csv" "$WORK/scores/fold-$fold-$arm.csv"
  [ "${CHECK:-0}" -gt 0 ] || continue
  mkdir -p "$at/check"
  for scan in $(ls "$at/test/imagesTr" | head -n "$CHECK"); do ln -sf "$at/test/imagesTr/$scan" "$at/check/"; done
  nnUNetv2_predict -i "$at/check" -o "$at/$arm-check" -d "$number" -c 3d_lowres -f all -p "$plans" -tr nnUNetTrainerSteps \
    -device cpu --disable_tta -npp 1 -nps 1
  python3 - "$at/$arm-check" "$at/$arm-labels" <<'PYTHON'
import glob
import os
import sys

import nibabel
import numpy as np

theirs, ours = sys.argv[1:]
pairs = [[np.asarray(nibabel.load(f).dataobj) for f in (path, f"{ours}/{os.path.basename(path)}")] for path in glob.glob(f"{theirs}/*.nii.gz")]
print(f"{len(pairs)} label maps, {sum(a.size for a, _ in pairs)} voxels, {sum((a > 0).sum() for a, _ in pairs)} labelled, "
      f"{sum((a != b).sum() for a, b in pairs)} differ")
PYTHON
done
