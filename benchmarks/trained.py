"""Would the trainings that were run have been planned: do they fit by the model, and which MFU does it predict?

    python benchmarks/trained.py [--output benchmarks/results/trained.md]

`trained.toml` has the configurations as their publishers state them, with sources. Nothing is fitted to them: each row
is judged by the defaults of its framework, as `plan configure --judge` does.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pipeplan.instances.base.json_file import write_text_atomically
from pipeplan.instances.base.quantities import GIB, levels
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.config_json import model_from_config
from pipeplan.instances.training.problem import TrainingProblem
from pipeplan.instances.training.scope import usual_errors
from pipeplan.studies.configure.judge import Judged, judge

FILE = Path(__file__).with_name("trained.toml")
GIVEN = ("sequence", "batch", "precision", "framework", "optimizer", "dropout", "attention_kernel")
# Operations of a training with full recomputation over those without.
COUNTED_AGAIN = 4 / 3
FAR = 0.2


@dataclass(frozen=True)
class Trained:
    """One training as it was published, and as it is judged."""

    run: Mapping[str, Any]
    judged: Judged

    @property
    def predicted(self) -> float:
        mfu = self.judged.evaluation.timing.mfu
        assert mfu is not None, "all models have shapes"
        return mfu

    @property
    def published(self) -> float | None:
        """MFU as published, or from published seconds or operations; None: only that it ran."""
        run, problem = self.run, self.judged.problem
        if "seconds" in run:
            return self.predicted * self.judged.evaluation.timing.seconds / float(run["seconds"])
        if "tflops" in run:
            return float(run["tflops"]) * 1e12 / problem.peak / (COUNTED_AGAIN if run.get("counted_again") else 1)
        return float(run["mfu"]) if "mfu" in run else None

    @property
    def is_far(self) -> bool:
        """Does it fit in reality and not here, or is the prediction off by more than a fifth?"""
        off = 0.0 if self.published is None else self.predicted / self.published - 1
        return self.judged.fits == "no" or abs(off) > FAR

    def cells(self) -> Iterator[str]:
        run, full, published = self.run, self.judged.evaluation.fullest, self.published
        yield f"{run['model']}, {run['source']}"
        yield str(run["devices"])
        yield f"`{run['words']}`"
        yield f"{full.bytes / GIB:.1f} of {(self.judged.problem.memory_bytes or 0) / GIB:.1f}"
        yield self.judged.fits
        yield f"{self.predicted:.1%}"
        yield "" if published is None else f"{published:.1%}"
        yield "" if published is None else f"{self.predicted / published - 1:+.0%}"
        yield "; ".join(filter(None, (f"assumed: {run['assumed']}" if "assumed" in run else "", run.get("why"))))


def problem_of_run(run: Mapping[str, Any], models: Mapping[str, Any]) -> TrainingProblem:
    name = run["model"]
    more = {key: run[key] for key in GIVEN if key in run}
    more |= {key: False for key in ("flash_attention", "sequence_parallel") if run.get(f"no_{key}")}
    more |= {"levels": levels(run["levels"])} if "levels" in run else {}
    return problem_of(model_from_config(models[name], name) if name in models else name, run["devices"], **more)


def trained() -> Iterator[Trained]:
    table = tomllib.loads(FILE.read_text("utf-8"))
    for run in table["run"]:
        problem = problem_of_run(run, table["models"])
        yield Trained(run, judge(problem, run["words"], usual_errors(problem).memory))


def page(rows: list[Trained]) -> str:
    off = [abs(row.predicted / row.published - 1) for row in rows if row.published is not None]
    fit = sum(row.judged.fits != "no" for row in rows)
    far = sum(row.is_far for row in rows)
    head = (
        f"# {len(rows)} configurations that were trained\n\n"
        "Each was judged by the defaults of its framework; nothing is fitted to them. "
        f"{fit} of {len(rows)} fit or may fit. Predicted MFU is off by {median(off):.0%} in the median of the "
        f"{len(off)} whose MFU, seconds or operations were published, and {far} rows are off by more than {FAR:.0%} "
        "or do not fit here: see their remarks. Figures were written down from memory of the sources; those of "
        "Nemotron-4 340B were compared again.\n\n"
        "Made by `python benchmarks/trained.py --output benchmarks/results/trained.md`, of `trained.toml`.\n\n"
    )
    titles = ("model and source", "GPUs", "configuration", "GiB of the fullest rank", "fits")
    titles += ("MFU predicted", "published", "off by", "remarks")
    lines = [titles, ["---"] * len(titles), *(list(row.cells()) for row in rows)]
    return head + "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", help="the page to write; default: print it")
    to = parser.parse_args().output
    text = page(list(trained()))
    write_text_atomically(to, text) if to else print(text, end="")
