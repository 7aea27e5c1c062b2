# What voxsaw auto did, stage by stage. Where /tmp/hour-mr/auto holds nothing but plan.yaml, these commands make the same again.
# Paths are from /tmp.
voxsaw inspect /tmp/hour-mr/nnUNet_raw/Dataset044_Hippocampus
voxsaw plan /tmp/hour-mr/nnUNet_raw/Dataset044_Hippocampus --to prepare --out /tmp/hour-mr/auto/prepare.yaml
voxsaw prepare /tmp/hour-mr/nnUNet_raw/Dataset044_Hippocampus --config /tmp/hour-mr/auto/prepare.yaml --out /tmp/hour-mr/auto/prepared
# what it decided on is kept: voxsaw plan /tmp/hour-mr/auto/prepared --hours 0.17998 --out /tmp/hour-mr/auto/plan.yaml
voxsaw pretrain --config /tmp/hour-mr/auto/plan.yaml --steps 3994 --warmup 30 --step-size 19970 --tooth 100 --validate-every 1000 --checkpoint-every 400 --out /tmp/hour-mr/auto/pretrained
voxsaw finetune --config /tmp/hour-mr/auto/plan.yaml --init /tmp/hour-mr/auto/pretrained --fold 1 --folds 5 --steps 9464 --warmup 31 --step-size 20748 --tooth 104 --validate-every 2281 --checkpoint-every 912 --out /tmp/hour-mr/auto/fold1
mkdir -p /tmp/hour-mr/auto/model
cp /tmp/hour-mr/auto/fold1/last.safetensors /tmp/hour-mr/auto/model/fold1.safetensors
voxsaw finetune --config /tmp/hour-mr/auto/plan.yaml --init /tmp/hour-mr/auto/pretrained --fold 2 --folds 5 --steps 10000 --warmup 33 --step-size 21923 --tooth 110 --validate-every 2410 --checkpoint-every 964 --out /tmp/hour-mr/auto/fold2
cp /tmp/hour-mr/auto/fold2/last.safetensors /tmp/hour-mr/auto/model/fold2.safetensors
voxsaw finetune --config /tmp/hour-mr/auto/plan.yaml --init /tmp/hour-mr/auto/pretrained --fold 3 --folds 5 --steps 10000 --warmup 33 --step-size 21923 --tooth 110 --validate-every 2410 --checkpoint-every 964 --out /tmp/hour-mr/auto/fold3
cp /tmp/hour-mr/auto/fold3/last.safetensors /tmp/hour-mr/auto/model/fold3.safetensors
voxsaw finetune --config /tmp/hour-mr/auto/plan.yaml --init /tmp/hour-mr/auto/pretrained --fold 4 --folds 5 --steps 10000 --warmup 33 --step-size 21923 --tooth 110 --validate-every 2410 --checkpoint-every 964 --out /tmp/hour-mr/auto/fold4
cp /tmp/hour-mr/auto/fold4/last.safetensors /tmp/hour-mr/auto/model/fold4.safetensors
voxsaw finetune --config /tmp/hour-mr/auto/plan.yaml --init /tmp/hour-mr/auto/pretrained --fold 5 --folds 5 --steps 10000 --warmup 33 --step-size 21923 --tooth 110 --validate-every 2410 --checkpoint-every 964 --out /tmp/hour-mr/auto/fold5
cp /tmp/hour-mr/auto/fold5/last.safetensors /tmp/hour-mr/auto/model/fold5.safetensors
voxsaw next /tmp/hour-mr/auto/prepared --drawn --out /tmp/hour-mr/auto/next
voxsaw report /tmp/hour-mr/auto/pretrained /tmp/hour-mr/auto/fold1 /tmp/hour-mr/auto/fold2 /tmp/hour-mr/auto/fold3 /tmp/hour-mr/auto/fold4 /tmp/hour-mr/auto/fold5 --out /tmp/hour-mr/auto/report.html
