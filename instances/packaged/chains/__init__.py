"""Packaged chains and the table of their best known periods; a package so that installations hold them."""
