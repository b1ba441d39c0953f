"""Schedules of blocks on devices with memory: exact models and bounds, periodic and of given micro-batches."""
