"""Bounds and plans from sets of groups: which sets can one accelerator hold, and do a few make up the problem?"""
