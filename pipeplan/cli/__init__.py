"""The command line of pipeplan."""

from .app import app, main

__all__ = ["app", "main"]
