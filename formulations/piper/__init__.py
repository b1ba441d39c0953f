"""Tarnawski, Narayanan and Phanishayee, NeurIPS 2021: stages with data, tensor and pipeline parallelism (Piper)."""
