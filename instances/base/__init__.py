"""What every kind of problem stands on: exact amounts, errors, checks, fields, graphs, JSON files and results."""
