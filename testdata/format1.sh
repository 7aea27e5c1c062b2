#!/bin/sh
# Writes checkpoints of format 1 with the program of commit fb6b967.
V=${1:?program}
$V demo --quick --out demo >/dev/null 2>&1
$V pretrain --data demo/prepared --hold-out 0.2 --channels 1 --levels 1 --preset monai --norm instance --activation relu --crop 24 --grid 2x2x2 --patch 8 --batch 1 --features 3 --hidden 2 --head both --rounds 2 --binary --steps 3 --validate-every 2 --validate-cases 2 --seed 7 --out pretrain 2>/dev/null
$V finetune --data demo/prepared --init pretrain/last.safetensors --labels 1+3,2 --crop 16 --steps 2 --validate-cases 1 --hold-out 0.2 --encoder-lr 0.5 --out finetune 2>/dev/null
cat > plan.yaml <<'Y'
data: demo/prepared
folds: 2
run_folds: [1]
fractions: [0.5]
seeds: [1]
initialisations: [{name: puzzles, grid: [2, 2, 2]}]
pretrain: {network: {preset: paper, channels: 1, levels: 1, norm: instance}, crop: [24, 24, 24], patch: [8, 8, 8], batch: 1, features: 3, hidden: 2, train: {steps: 1}}
finetune: {network: {preset: paper, channels: 1, levels: 1, norm: instance}, crop: [16, 16, 16], train: {steps: 1}}
inference: {overlap: 0}
Y
$V crossval --config plan.yaml --out study 2>/dev/null
cp pretrain/last.safetensors format1_pretrain.safetensors
cp finetune/last.safetensors format1_finetune.safetensors
cp study/pretraining/puzzles/fold-1/last.safetensors format1_study.safetensors
