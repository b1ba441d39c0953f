"""Schedules of blocks on devices: periodic ones, and those of given micro-batches."""
