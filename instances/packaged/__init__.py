"""Packaged problems of every kind: data, see README.md in this folder."""
