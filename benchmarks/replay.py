"""Published sweeps as a laboratory: how many runs until a campaign knows that it is done, and whether it is right.

    python benchmarks/replay.py PATH [--json] [--peers 20] [--draws 20] [--picture docs/replay.svg]

PATH is one of the tables that docs/accuracy.md names, any file with the columns of one, or a folder with the two
exhaustive sweeps. A *group* is one model on one cluster with every configuration that was run, eight at least. A
campaign asks for one run of a group after the other and sees no other. It ends when the fastest is certified, or open
after twelve runs. `rho` comes from the other groups: the 90th percentile over them of the error that a fit on four of
their runs leaves among configurations predicted within 25 % of the best.

Peers: random order, the order of prediction, the same with the rule of the campaign but no fit, and with `--peers
SEEDS` optuna's TPE and GP samplers, for which points that were never run cost nothing (pip install optuna torch).
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from measured import TABLES, Run, Table, ninetieth, runs_of

from pipeplan.instances.training.iteration import model_operations
from pipeplan.planners.training.deciding import Decision, Question, Trial

LEAST_GROUP, MOST_RUNS = 8, 12
# A sampler that has asked for so many runs, or points, is counted as if it had found a good one: a lower limit, as a
# Gaussian process over hundreds of points takes hours.
MOST_ASKED, MOST_POINTS = 24, 60
# By file: the column that only tables like it have.
SIGNS = {"ultrascale_playbook_h100.csv": "accumulation", "mosaicml_fsdp.csv": "mp_mode"}
SIGNS |= {"bigscience_megatron_deepspeed.csv": "partition", "dgxc_benchmarking.csv": "task"}
SIGNS |= {
    "aleph_alpha_a100_layouts.csv": "mfu",
    "vtrain_a100.csv": "kernel",
    "nemo_2407_h100.csv": "tflops_per_gpu",
}
SWEEPS = ("aleph_alpha_a100_layouts.csv", "ultrascale_playbook_h100.csv")
# By framework: by how much the answer may be slower than the fastest. Five repeats of nanotron differ by 16 %.
DELTA = {"nanotron": 0.05}
USUAL_DELTA = 0.01
# A group whose fastest run uses a smaller share of the peak is told apart.
LEAST_MFU = 0.1


@dataclass(frozen=True)
class Replayed:
    """What came of one campaign."""

    group: str
    size: int
    runs: int
    certified: bool
    regret: float
    """Of the fastest run that was asked for, against the fastest of the group."""
    regret_to_three: float
    """The same against the mean of the three fastest."""
    rho: float
    delta: float
    until: int
    """Runs until within 2 % of the fastest, the campaign going on as long as it takes."""
    by_prediction: int
    """The same in the order of prediction."""
    at_random: float
    """The same in random order, in the mean."""
    regrets: tuple[float, ...]
    """After each run."""
    by_order: tuple[float, ...]
    """The same in the order of prediction."""
    by_chance: tuple[float, ...]
    """The same in random order, in the mean."""
    knows: int
    """Runs in the order of prediction until it is certified without a fit, most MOST_RUNS."""
    mfu: float


class Group:
    """One group with its forms."""

    def __init__(self, name: tuple[str, ...], runs: Sequence[Run]) -> None:
        self.name, problem = ", ".join(name), runs[0].problem
        # All of them were run, so that memory decides nothing.
        self.problem = problem.replace(gpu=replace(problem.gpu, memory_bytes=None))
        self.seconds = [run.seconds or math.inf for run in runs]
        self.plans = tuple(run.plan for run in runs)
        question = Question(self.problem, self.plans)
        self.forms = Decision(question).every
        self.delta = DELTA.get(self.problem.framework, USUAL_DELTA)

    def decision(self, rho: float) -> Decision:
        return Decision(Question(self.problem, self.plans, self.delta, min(rho, 0.99)), self.forms)

    def errors(self, draws: int) -> list[float]:
        """What a fit on four runs leaves of the times predicted within 25 % of the best; the four are drawn among those
        within 50 %."""
        decision = self.decision(0.1)
        before = decision.fit({})
        near = [i for i, seconds in enumerate(before) if seconds <= 1.5 * min(before)]
        errors = []
        for draw in range(draws):
            four = random.Random(f"{self.name} {draw}").sample(near, min(4, len(near)))
            after = decision.fit({i: self.seconds[i] for i in four})
            errors += [
                abs(math.log(after[i] / self.seconds[i]))
                for i in near
                if i not in four and before[i] <= 1.25 * min(before)
            ]
        return errors

    def replay(self, rho: float) -> Replayed:
        decision, fastest = self.decision(rho), min(self.seconds)
        verdict = decision.verdict([])
        before = verdict.likely
        predicted = sorted(before, key=lambda i: before[i])
        trials: list[Trial] = []
        done: tuple[int, bool, float] | None = None
        until = 0
        while verdict.next is not None:
            trials.append(Trial(verdict.next, "measured", self.seconds[verdict.next]))
            verdict = decision.verdict(trials)
            best = min(trial.seconds or math.inf for trial in trials)
            until = until or (len(trials) if best <= 1.02 * fastest else 0)
            if done is None and (verdict.certified or len(trials) == MOST_RUNS):
                done = len(trials), verdict.certified, best
            if done and (until or verdict.certified):
                break
        assert done is not None, "a group has a run"
        operations = model_operations(self.problem)
        return Replayed(
            group=self.name,
            size=len(self.plans),
            runs=done[0],
            certified=done[1],
            regret=done[2] / fastest - 1,
            regret_to_three=done[2] / statistics.fmean(sorted(self.seconds)[:3]) - 1,
            rho=rho,
            delta=self.delta,
            until=until or len(self.plans),
            by_prediction=self.within(predicted),
            at_random=statistics.fmean(self.within(order) for order in self.shuffled(300)),
            regrets=self.regrets([trial.candidate for trial in trials]),
            by_order=self.regrets(predicted),
            by_chance=tuple(map(statistics.fmean, zip(*map(self.regrets, self.shuffled(100)), strict=True))),
            knows=self._knows(rho, predicted, before),
            mfu=(operations or 0.0) / (fastest * self.problem.devices * self.problem.peak),
        )

    def within(self, order: Sequence[int], share: float = 0.02) -> int:
        """Runs in this order until one is within a share of the fastest."""
        fastest = min(self.seconds)
        return next(n for n, i in enumerate(order, 1) if self.seconds[i] <= fastest * (1 + share))

    def regrets(self, order: Sequence[int]) -> tuple[float, ...]:
        """The regret after each of the first MOST_RUNS runs; of a campaign that ended earlier the last one stays."""
        best = list(accumulate((self.seconds[i] for i in order), min))
        best += [best[-1]] * (MOST_RUNS - len(best))
        return tuple(seconds / min(self.seconds) - 1 for seconds in best[:MOST_RUNS])

    def shuffled(self, count: int) -> Iterator[list[int]]:
        for seed in range(count):
            order = list(range(len(self.plans)))
            random.Random(seed).shuffle(order)
            yield order

    def _knows(self, rho: float, order: Sequence[int], predicted: Any) -> int:
        """Runs in this order until no prediction allows for a faster one, each being off by rho at most."""
        for n in range(1, min(MOST_RUNS, len(order)) + 1):
            best = min(self.seconds[i] for i in order[:n])
            if all(predicted[i] * math.exp(-rho) >= best / (1 + self.delta) for i in order[n:]):
                return n
        return MOST_RUNS


# ---- Bayesian optimisation -------------------------------------------------------------------------------------


def asked_by(sampler: str, group: Group, seed: int) -> int:
    """Runs that a sampler of optuna asks for until within 2 % of the fastest, at most MOST_ASKED.

    What was never run costs nothing.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = {"TPE": optuna.samplers.TPESampler, "GP": optuna.samplers.GPSampler}[sampler](seed=seed)
    study = optuna.create_study(sampler=made)
    keys = [
        (
            plan.degrees.tensor,
            plan.degrees.pipeline,
            plan.degrees.virtual,
            plan.micro_batch,
            plan.zero,
            plan.recompute[0],
        )
        for plan in group.plans
    ]
    choices = [sorted({str(key[i]) for key in keys}) for i in range(len(keys[0]))]
    seconds: dict[tuple[str, ...], float] = {}
    for key, own in zip(keys, group.seconds, strict=True):
        words = tuple(map(str, key))
        seconds[words] = min(own, seconds.get(words, math.inf))
    fastest, worst, asked = min(group.seconds), max(group.seconds), set()
    for _ in range(MOST_POINTS):
        trial = study.ask()
        point = tuple(trial.suggest_categorical(str(i), own) for i, own in enumerate(choices))
        if point not in seconds:
            study.tell(trial, 2 * worst)
            continue
        asked.add(point)
        study.tell(trial, seconds[point])
        if seconds[point] <= 1.02 * fastest or len(asked) == MOST_ASKED:
            break
    return len(asked)


# ---- what is printed -------------------------------------------------------------------------------------------


def tables_of(path: Path) -> Iterator[tuple[Path, Table]]:
    """The folder of each table with the table, whose file may have any name."""
    if path.is_dir():
        for name in SWEEPS:
            if (path / name).is_file():
                yield path, next(table for table in TABLES if table.file == name)
        return
    with path.open() as file:
        columns = next(csv.reader(line for line in file if not line.startswith("#")))
    name = next((own for own, sign in SIGNS.items() if path.name == own or sign in columns), None)
    if name is None:
        raise SystemExit(f"{path}: these are not the columns of a table that is known; see docs/accuracy.md")
    yield path.parent, replace(next(table for table in TABLES if table.file == name), file=path.name)


def groups_of(folder: Path, table: Table) -> list[Group]:
    runs = runs_of(folder, replace(table, judged=lambda row: True))
    whole: dict[tuple[tuple[str, ...], str], list[Run]] = defaultdict(list)
    for run in runs:
        if run.seconds is not None and not run.failed:
            whole[run.group, run.problem.hash].append(run)
    return [Group(name, own) for (name, _), own in whole.items() if len(own) >= LEAST_GROUP]


def replayed(groups: Sequence[Group], draws: int) -> list[Replayed]:
    errors = [group.errors(draws) for group in groups]
    means = [statistics.fmean(own) if own else None for own in errors]
    found = []
    for i, group in enumerate(groups):
        others = [own for j, own in enumerate(means) if j != i and own is not None]
        found.append(group.replay(ninetieth(others) if others else 0.1))
    return found


def lines(name: str, groups: Sequence[Group], found: Sequence[Replayed], seeds: int) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield "| group | runs of | rho | runs | certified | regret | to the three fastest |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: |"
    for own in found:
        certified = "yes" if own.certified else "open"
        cells = [own.group, f"{own.size}", f"{own.rho:.1%}", f"{own.runs}", certified]
        yield "| " + " | ".join([*cells, f"{own.regret:.1%}", f"{own.regret_to_three:.1%}"]) + " |"
    yield ""
    yield "| groups | certified | runs, median | regret, mean and worst | refuted |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    parts = [("all", found)]
    low = [own for own in found if own.mfu < LEAST_MFU]
    if low:
        parts = [("10 % of the peak and more", [own for own in found if own.mfu >= LEAST_MFU]), ("below", low)]
    for title, own in parts:
        if own:
            regrets = [each.regret for each in own]
            refuted = sum(each.certified and each.regret > each.delta for each in own)
            cells = [f"{len(own)}, {title}", f"{sum(each.certified for each in own)}"]
            cells += [f"{statistics.median(each.runs for each in own):g}"]
            cells += [f"{statistics.fmean(regrets):.2%}, {max(regrets):.1%}", f"{refuted}"]
            yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "| runs until within 2 % | mean |"
    yield "| --- | ---: |"
    means = {
        "`plan tune`": [own.until for own in found],
        "order of prediction": [own.by_prediction for own in found],
    }
    means["random order"] = [own.at_random for own in found]
    for sampler in ("TPE", "GP") if seeds else ():
        means[f"optuna, {sampler}"] = [
            statistics.fmean(asked_by(sampler, group, seed) for seed in range(seeds)) for group in groups
        ]
    for title, counts in means.items():
        least = "at least " if title.startswith("optuna") else ""
        yield f"| {title} | {least}{statistics.fmean(counts):.1f} |"
    yield ""
    knows = statistics.median(own.knows for own in found)
    yield f"The order of prediction with the same rho and no fit knows after {knows:g} runs in the median."


def draw(sweeps: Sequence[tuple[str, Sequence[Replayed]]], path: Path) -> None:
    """Regret against the number of runs, a panel for each sweep."""
    from pipeplan.show.pictures import canvas, write_picture

    with canvas(9, 3.2) as figure:
        panels = figure.subplots(1, len(sweeps), squeeze=False)[0]
        for panel, (name, found) in zip(panels, sweeps, strict=True):
            for title, which, style in (
                ("plan tune", "regrets", "-"),
                ("order of prediction", "by_order", "--"),
                ("random order", "by_chance", ":"),
            ):
                means = [
                    100 * statistics.fmean(own) for own in zip(*(getattr(x, which) for x in found), strict=True)
                ]
                panel.plot(range(1, MOST_RUNS + 1), means, style, label=title)
            panel.set_title(f"{name}, {len(found)} groups")
            panel.set_xlabel("runs")
            panel.set_ylabel("slower than the fastest, %")
            panel.set_ylim(bottom=0)
            panel.legend()
        write_picture(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peers", type=int, default=0, metavar="SEEDS")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    every, sweeps = [], []
    for folder, table in tables_of(asked.path):
        groups = groups_of(folder, table)
        found = replayed(groups, asked.draws)
        every += found
        sweeps.append((table.name, found))
        if not asked.json:
            print("\n".join(lines(table.name, groups, found, asked.peers)), flush=True)
    if asked.picture:
        draw(sweeps, asked.picture)
    if asked.json:
        names = ("group", "size", "runs", "certified", "regret", "regret_to_three", "rho", "delta")
        print(json.dumps({"groups": [{name: asdict(own)[name] for name in names} for own in every]}, indent=1))


if __name__ == "__main__":
    main()
