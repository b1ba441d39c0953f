"""Style and script of the reports."""
