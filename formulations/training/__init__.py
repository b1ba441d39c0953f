"""Models of training configurations: where to cut a row of units, as a mixed-integer program."""
