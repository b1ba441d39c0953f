"""Print constraints for pip: the lowest version that pyproject.toml names of each package, also of those of the extras.

A name may stand in several lines with markers (`numpy>=2.1; python_version >= '3.13'`); pip reads the markers itself.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
BOUND = re.compile(r"(?P<name>[\w-]+)(?:\[.*\])?>=(?P<version>[\w.]+)[^;]*(?P<marker>;.*)?")


def constraints(pyproject: Path = PYPROJECT) -> list[str]:
    """A line for each requirement with a lower bound."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(line for group in project["optional-dependencies"].values() for line in group),
    ]
    bounds = [found for line in wanted if (found := BOUND.fullmatch(line))]
    return list(dict.fromkeys(f"{b['name']}=={b['version']}{b['marker'] or ''}" for b in bounds))


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in constraints()))
