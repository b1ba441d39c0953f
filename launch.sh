#!/usr/bin/env bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
# Start it with sbatch; add your own lines for partition, time and account.
# Yours to add: data, tokenizer, learning rate, and what of the model costs no time (--rotary-base, ...).
# Arguments of this script come before those below, which count where both say something.
set -euo pipefail

export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$MASTER_ADDR:29500" \
  -m torchtitan.train \
  "$@" \
  --job.config_file torchtitan.toml
