"""Running a plan on this machine, with a process for each device, and comparing predicted with measured times."""
