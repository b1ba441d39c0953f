"""The papers behind the methods: registries name them, and `plan compare --cite` prints them as BibTeX.

What a bibliography says of each stands once, in `papers.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Paper:
    """What a bibliography says of a paper."""

    key: str
    authors: str
    """As BibTeX has them, "Family, Given and Family, Given"; an institution has no comma."""
    title: str
    year: int
    url: str
    venue: str = ""
    """Where it appeared, with volume and pages where there are any; empty: a report on its own."""
    short_venue: str = ""

    @property
    def words(self) -> str:
        """The paper in one line of text."""
        families = [name.partition(",")[0] for name in self.authors.split(" and ")]
        names = " and ".join(families) if len(families) < 3 else f"{families[0]} et al."
        return ", ".join(filter(None, (names, self.title, f"{self.short_venue} {self.year}".strip())))

    @property
    def bibtex(self) -> str:
        """The paper's BibTeX entry; braces keep the capitals of names in the title."""
        authors = self.authors if "," in self.authors else f"{{{self.authors}}}"
        fields = {
            "author": authors,
            "title": f"{{{self.title}}}",
            "howpublished": self.venue,
            "year": str(self.year),
            "url": self.url,
        }
        lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])


_TABLE = tomllib.loads(Path(__file__).with_name("papers.toml").read_text("utf-8"))
# The paper of each solver, by the solver's name.
_BY_SOLVER = {row.pop("solver"): key for key, row in _TABLE.items() if "solver" in row}
# Papers by their keys, with which methods name them.
PAPERS: Mapping[str, Paper] = {key: Paper(key, **row) for key, row in _TABLE.items()}
SOLVERS: Mapping[str, Paper] = {name: PAPERS[key] for name, key in _BY_SOLVER.items()}
PROFILES = PAPERS["dolan2002profiles"]


def pipeplan_itself(version: str) -> Paper:
    """How this program is cited; CITATION.cff says the same."""
    title = "pipeplan: exact planning of pipeline-parallel DNN training and inference"
    return Paper("pipeplan", "The pipeplan developers", title, 2026, "", f"Software, version {version}")


def bibliography(papers: Iterable[Paper]) -> str:
    """A BibTeX file, each paper once."""
    return "\n\n".join(paper.bibtex for paper in dict.fromkeys(papers)) + "\n"
