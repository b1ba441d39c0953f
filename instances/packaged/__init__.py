"""Packaged placement problems: data, see README.md in this folder."""
