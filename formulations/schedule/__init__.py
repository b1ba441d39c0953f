"""Schedules of blocks on devices with memory: exact models and bounds."""
