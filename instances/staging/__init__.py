"""Stagings: stages with data- and tensor-parallel degrees and recomputation, flat or on levels."""
