#!/bin/bash
# --nodes=2
# --gres=gpu:4
MODEL=(--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --vocab-size 50304 --normalization RMSNorm)
srun torchrun --nnodes $NODES --nproc-per-node ${SLURM_GPUS_ON_NODE} --rdzv-id $SLURM_JOB_ID pretrain_gpt.py \
  "${MODEL[@]}" --tensor-model-parallel-size 2 --seq-length 4096 --global-batch-size 64 --bf16
