"""Schedules by rule: list schedules, and the named schedules of pipelines."""
