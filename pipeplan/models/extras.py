"""Optional packages: one sentence on what to install where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from ..instances.base.errors import InputError

# The extra that brings each package, by the name under which it is imported.
EXTRA_OF = {"torch": "torch", "transformers": "hf", "onnx": "onnx"}


def is_installed(*packages: str) -> bool:
    """Are all of these packages installed?"""
    return all(find_spec(package) is not None for package in packages)


def require(*packages: str) -> None:
    """Raise an error if one of these packages is missing; its remedy installs the extra of the last one."""
    for package in packages:
        if find_spec(package) is None:
            raise InputError(package, "is not installed", f"run pip install 'pipeplan[{EXTRA_OF[packages[-1]]}]'")
