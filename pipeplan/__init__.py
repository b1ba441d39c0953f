"""Exact planning of pipeline-parallel DNN training and inference."""
