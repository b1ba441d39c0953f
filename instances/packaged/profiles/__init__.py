"""Profiles of published networks, made by `benchmarks/packaged_profiles.py`."""
