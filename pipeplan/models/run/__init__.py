"""Running a plan on this machine: a process for each device, and what was predicted held against what was measured."""
