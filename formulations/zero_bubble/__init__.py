"""Schedules of blocks on devices with memory: exact models and bounds, of periodic ones and of given micro-batches."""
