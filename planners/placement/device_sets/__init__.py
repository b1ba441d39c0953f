"""Bounds and plans from whole devices: what can one accelerator hold, and do a few such sets make up the problem?"""
