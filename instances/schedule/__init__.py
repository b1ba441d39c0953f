"""Schedules: when every block of work of every micro-batch runs, on devices with memory."""
