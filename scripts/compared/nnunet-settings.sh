# What nnunet.sh and nnunet-predict.sh run with; nnU-Net's commands are in PATH.
here=$(cd "$(dirname "$0")" && pwd)
export nnUNet_raw="$WORK/nnUNet_raw" nnUNet_preprocessed="$WORK/nnUNet_preprocessed" nnUNet_results="$WORK/nnUNet_results"
export nnUNet_extTrainer="$here/trainers"
export OMP_NUM_THREADS=1   # one core
export nnUNet_n_proc_DA=1
mkdir -p "$nnUNet_preprocessed" "$nnUNet_results"
