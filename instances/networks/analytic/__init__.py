"""Named hardware, and times by the roofline rule."""
