"""The packaged instances: `instances/packaged/*.json` and the facts about them, made from the recipes in `recipes/`.

    python benchmarks/packaged_instances.py          # write all of them anew
    python benchmarks/packaged_instances.py --check  # name the stored files that differ; exit code 1 if any

Users need the stored files alone. `benchmarks/best_known.py` finds the best known values of a new instance.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recipes import chain, other_kinds, placement, staging
from recipes.recipe import Recipe

from pipeplan.instances.catalogue import FACTS, packaged_kinds
from pipeplan.instances.files import problem_to_text
from pipeplan.instances.registry import KINDS, Problem

FOLDER = Path(__file__).resolve().parents[1] / "instances" / "packaged"
RECIPES: Mapping[str, tuple[Recipe, ...]] = {
    "placement": placement.RECIPES,
    "chain": chain.RECIPES,
    "staging": staging.RECIPES,
    "graph-pipeline": other_kinds.GRAPH_PIPELINES,
    "schedule": tuple(recipe.named() for recipe in other_kinds.SCHEDULES),
    "training": tuple(recipe.named() for recipe in other_kinds.TRAININGS),
}


def variants_of(problem: Problem) -> tuple[str, ...]:
    """The variants of its kind that make sense for a problem."""
    senseless: tuple[str, ...] = ()
    if problem.kind == "schedule":  # it has either its micro-batches' span or its steady state's period
        senseless = ("span",) if problem.micro_batches is None else ("period",)
    elif problem.kind == "staging" and problem.levels:  # weights are synchronised as in the paper
        senseless = ("reference",)
    return tuple(variant for variant in packaged_kinds()[problem.kind].variants if variant not in senseless)


def facts_of(recipe: Recipe, problem: Problem) -> dict[str, Any]:
    """What the list of instances says of a problem, so that it need not read the problem."""
    more = {"tensor_degrees": list(problem.degrees)} if problem.kind == "staging" else {}
    facts = KINDS[problem.kind].facts(problem)
    described = {**facts, **more, "time_unit": problem.time_unit, "source": recipe.source}
    return {"name": recipe.name, "kind": problem.kind, **described}


def made() -> Iterator[tuple[str, str]]:
    """Name and text of every file: each problem on one line, and the facts about all of them."""
    facts = []
    for recipe in (recipe for recipes in RECIPES.values() for recipe in recipes):
        problem = recipe.build()
        text = json.dumps(json.loads(problem_to_text(problem)), separators=(",", ":"))
        yield f"{recipe.name}.json", text + "\n"
        facts.append(json.dumps(facts_of(recipe, problem), allow_nan=False) + "\n")
    yield FACTS, "".join(facts)


def differing() -> list[str]:
    """Names of stored files that are not what is made, that nothing makes, or that are missing."""
    files = {name: text.encode() for name, text in made()}
    stored = {path.name: path.read_bytes() for path in FOLDER.glob("*.json*")}
    return sorted(name for name in files.keys() | stored if files.get(name) != stored.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored files and write nothing")
    if parser.parse_args().check:
        names = differing()
        print("\n".join(names) or "All stored files are what the recipes make.")
        sys.exit(1 if names else 0)
    for name, text in made():
        FOLDER.joinpath(name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
