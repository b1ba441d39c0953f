"""The least memory per device with a plan, for every kind of problem."""
