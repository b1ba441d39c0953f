"""Chains: layers in a row on GPUs, by periodic patterns with exact memory."""
