"""The command line of pipeplan."""

from .app import main as main
