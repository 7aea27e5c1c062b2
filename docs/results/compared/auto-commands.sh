# What voxsaw auto did, stage by stage. Where /tmp/hour/auto holds nothing but plan.yaml, these commands make the same again.
voxsaw inspect /tmp/hour/nnUNet_raw/Dataset043_OpenKBP
voxsaw prepare /tmp/hour/nnUNet_raw/Dataset043_OpenKBP --spacing 3.906x3.906x2.5 --out /tmp/hour/auto/prepared
# what it decided on is kept: voxsaw plan /tmp/hour/auto/prepared --hours 0.17978 --out /tmp/hour/auto/plan.yaml
# what it decided on is kept: voxsaw plan /tmp/hour/auto/prepared --hours 0.44812 --out /tmp/hour/auto/plan.yaml --force
voxsaw finetune --config /tmp/hour/auto/plan.yaml --fold 1 --folds 5 --steps 3966 --warmup 25 --step-size 16546 --tooth 83 --validate-every 1199 --checkpoint-every 479 --out /tmp/hour/auto/fold1
mkdir -p /tmp/hour/auto/model
cp /tmp/hour/auto/fold1/last.safetensors /tmp/hour/auto/model/fold1.safetensors
voxsaw finetune --config /tmp/hour/auto/plan.yaml --hold-out 0 --steps 3966 --warmup 25 --step-size 16546 --tooth 83 --validate-every 1199 --checkpoint-every 479 --out /tmp/hour/auto/all
cp /tmp/hour/auto/all/last.safetensors /tmp/hour/auto/model/all.safetensors
voxsaw next /tmp/hour/auto/prepared --drawn --out /tmp/hour/auto/next
voxsaw report /tmp/hour/auto/fold1 /tmp/hour/auto/all --out /tmp/hour/auto/report.html
