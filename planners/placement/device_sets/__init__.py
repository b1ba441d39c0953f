"""Bounds and plans from whole devices: which sets of groups can one accelerator hold, and do a few of them make a plan?"""
