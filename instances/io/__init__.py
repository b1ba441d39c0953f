"""Readers and writers: our own versioned JSON, the published JSON, PipeDream profiles, plans and results."""
