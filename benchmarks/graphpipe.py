"""GraphPipe: search times, proofs for iterations, the case study, the ablation, branch counts, and the price of the
decomposition.

    python benchmarks/graphpipe.py --output benchmarks/results [--limit 60]
    python benchmarks/graphpipe.py --iterations [--limit 60]

The second prints the proofs for iterations alone.

Times are of the library in a warm process: machine code is loaded before. Gains are ratios of simulated iteration
times, sequential pipeline over the other; every planner has the same costs and sweeps the same micro-batch sizes.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recipes  # noqa: F401  finds the modules of notebooks
from graphpipe_networks import candle_uno, case_study, dlrm, mmt, sequential

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.graph_pipeline.problem import (
    GraphPipelineProblem,
    Link,
    Operator,
    TimeCurve,
    micro_batch_sizes,
)
from pipeplan.instances.graph_pipeline.referee import evaluate_stage_graph
from pipeplan.planners.graph_pipeline.configurations import menu
from pipeplan.planners.graph_pipeline.search import Search, chain_tree

MODELS: dict[str, Callable[..., GraphPipelineProblem]] = {"MMT": mmt, "DLRM": dlrm, "CANDLE-Uno": candle_uno}
DEVICES = (4, 8, 16, 32)
BRANCHES = (2, 4, 8, 16)
ROW, ABLATION, GRAPH = "spp-pipedream", "graphpipe-parallel", "graphpipe"
HALF_SAMPLES = 0.82
"""Case study: samples of a layer at half rate, from the published total gain; fixed before any plan was made."""
RANDOM_GRAPHS = 40
WIDTH = 118
"""Of a line of the page."""
PUBLISHED = {"depth": "fastest", "cuts": "tree"}
WANTED_GAP = 0.02
"""Between the shortest iteration known and its bound, on packaged networks."""

METHOD = """\
## What is planned, and how

Operators are taken apart into a tree of series and parallel parts. A stage is a leaf, a run of children of a series
node, any choice of branches of a parallel node, or (with `--option join=any`) the end of one branch with what follows
the join. Where a graph is not series-parallel, the smallest set of operators that stands in the way becomes one leaf,
which stays whole; the result names such leaves. For one micro-batch size `graphpipe` then finds the least time per
sample of the slowest stage, exactly over these stages: it searches among the times that a stage can have, and asks for
each time how few samples the first stages can hold in flight. The simulator chooses among the sizes.

The time per sample does not count bubbles, so the plan with the least one need not have the shortest iteration. By
default (`--option depth=any --option cuts=any`) the planner therefore simulates slower plans that hold fewer samples
in flight as well, and stages that are cut from a row of all operators, across branches.
`--option depth=fastest --option cuts=tree` is the published method.

The gains of the published method are shown with the assumed network and with one that takes no time: they come from the
shape of the pipeline, not from the transfers into the operator that joins the branches, which grow with the number of
branches whatever the stages are. All points are shown, and the lines below a table say where the gains grow. A third
part shows the gains of the defaults. There sequential pipelines catch up where one stage with replicas of everything
is best.
"""


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.iterations:
        print("\n".join(_iterations(arguments.limit)))
        return 0
    _warm_up()
    measured = [_trends(setting) for setting in SETTINGS]
    lines = [
        "# GraphPipe: measured",
        "",
        "Made by `python benchmarks/graphpipe.py --output benchmarks/results`.",
        "Hardware and sizes are assumptions of the generators",
        "(`notebooks/graphpipe_networks.py`). Nothing was measured, so the gains show trends and not the "
        "published numbers.",
        "",
        METHOD,
        *_search_times(),
        *_iterations(arguments.limit),
        *_case_study(),
        *(line for lines, _ in measured for line in lines),
        "![gains](graphpipe.svg)",
        "",
        *_chains(),
        *_price(),
    ]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "graphpipe.md").write_text("\n".join(lines))
    _draw([curves for _, curves in measured], arguments.output / "graphpipe.svg")
    print("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--output", type=Path, help="folder of the tables and the picture")
    what.add_argument("--iterations", action="store_true", help="print the proofs for iterations alone")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one proof of an iteration")
    return parser


def _warm_up() -> None:
    for planner in (GRAPH, ROW):
        pipeplan.solve(mmt(devices=8), planner=planner)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _table(title: str, words: str, head: list[str], rows: list[list[object]]) -> list[str]:
    table = [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]
    return [f"## {title}", "", *textwrap.wrap(words, WIDTH, break_on_hyphens=False), "", *table, ""]


# ---- iterations ------------------------------------------------------------------------------------------


def _iterations(limit: float) -> list[str]:
    """Packaged networks, then larger ones; what the published method finds stands beside, and refutes no bound."""
    packaged: list[Any] = list(pipeplan.packaged_names("graph-pipeline"))
    larger = [
        build(devices=devices) for devices in DEVICES for build in (*MODELS.values(), case_study) if devices != 8
    ]
    rows = []
    for network in [*packaged, *larger]:
        rows.append(_iteration_row(network, limit, network in packaged))
        _say(str(rows[-1]))
    words = (
        f"The shortest iterations that `cp-graphpipe --objective iteration` finds in at most {limit:g} s. The "
        "bounds hold for stages of the decomposition with one micro-batch size for all and k = 1. `target` is "
        "the gap that we want to reach at most. The last column is the published method, `graphpipe --option "
        "depth=fastest --option cuts=tree`. `tiny-graph` has no unit of time."
    )
    head = ["network", "devices", "iteration, ms", "bound, ms", "gap", "target", "seconds", "published method, ms"]
    return _table("Iterations: plans and proofs", words, head, rows)


def _iteration_row(network: Any, limit: float, is_packaged: bool) -> list[object]:
    limits = pipeplan.SolveOptions(time_limit_s=limit)
    begun = time.perf_counter()
    result = pipeplan.solve(network, formulation="cp-graphpipe", options={"objective": "iteration"}, limits=limits)
    seconds = time.perf_counter() - begun
    value, bound, gap = result.objective, result.bound, result.gap
    assert result.verified
    assert value is not None
    assert bound is not None
    assert gap is not None
    other = pipeplan.solve(network, planner=GRAPH, options=PUBLISHED).objective
    assert other is not None
    assert other >= bound * (1 - 1e-9), f"a plan of {network} refutes the bound"
    shown = "proven" if gap < 1e-6 else f"{gap:.2%}"
    wanted = f"{WANTED_GAP:.0%}" if is_packaged else ""
    scale = 1e3 if result.problem["time_unit"] == "s" else 1.0
    name, devices = result.problem["name"], result.problem["devices"]
    times = [f"{time * scale:.2f}" for time in (value, bound)]
    return [name, devices, *times, shown, wanted, f"{seconds:.1f}", f"{other * scale:.2f}"]


# ---- search times ----------------------------------------------------------------------------------------


def _search_times() -> list[str]:
    rows = []
    for name, build in MODELS.items():
        for devices in DEVICES:
            rows.append(_search_row(name, build(devices=devices)))
            _say(str(rows[-1]))
    words = (
        "Seconds to find the best plan. `search` tries all micro-batch sizes, `plan` also simulates the plans "
        "to choose among the sizes, and `one size` searches for the chosen size alone. `row` is the "
        "sequential search (`spp-pipedream`): the same compiled program over a row of all operators."
    )
    head = ["model", "devices", "plan", "search", "row", "row / search", "one size"]
    return _table("Search times", words, head, rows)


def _search_row(name: str, problem: GraphPipelineProblem) -> list[object]:
    plan_s, result = _timed(lambda: pipeplan.solve(problem, planner=GRAPH))
    sizes = micro_batch_sizes(problem, None)
    search_s, _ = _timed(lambda: _all_sizes(problem, sizes, None))
    row_s, _ = _timed(lambda: _all_sizes(problem, sizes, chain_tree(problem)))
    size = result.plan.stages[0].micro_batch
    one_s, _ = _timed(lambda: _all_sizes(problem, (size,), None))
    times = [f"{plan_s:.3f}", f"{search_s:.3f}", f"{row_s:.3f}", f"{row_s / search_s:.2f}", f"{one_s:.3f}"]
    return [name, problem.devices, *times]


def _timed(task: Callable[[], Any]) -> tuple[float, Any]:
    """The least of two runs."""
    least, answer = float("inf"), None
    for _ in range(2):
        began = time.perf_counter()
        answer = task()
        least = min(least, time.perf_counter() - began)
    return least, answer


def _all_sizes(problem: GraphPipelineProblem, sizes: tuple[int, ...], tree: Any) -> None:
    search = Search(problem, menu(problem, sizes), tree)
    for n in range(len(sizes)):
        search.best(slice(n, n + 1))


# ---- plans -----------------------------------------------------------------------------------------------


def _facts(problem: GraphPipelineProblem, result: pipeplan.Result) -> tuple[float, int, int | None, int]:
    """Iteration, micro-batch, depth, stages."""
    assert result.verified, (problem.name, result.messages)
    plan: Any = result.plan
    evaluation = evaluate_stage_graph(problem, plan)
    assert evaluation.iteration is not None
    return evaluation.iteration, plan.stages[0].micro_batch, evaluation.depth, len(plan.stages)


def _case_study() -> list[str]:
    rows: list[list[object]] = []
    for degrees in ("none", "divisors"):
        for join in (False, True):
            problem = case_study(join=join, half_samples=HALF_SAMPLES)
            facts = {
                name: _facts(problem, pipeplan.solve(problem, planner=name, options={"degrees": degrees, **own}))
                for name, own in ((ROW, {}), (GRAPH, {"cuts": "tree"}))
            }
            small = {"degrees": degrees, "micro_batch": facts[ROW][1], "cuts": "tree"}
            same = _facts(problem, pipeplan.solve(problem, planner=GRAPH, options=small))
            shown = [f"{x[0] * 1e3:.2f} ms, b = {x[1]}, depth {x[2]}, {x[3]} stages" for x in facts.values()]
            where = "in a stage" if join else "outside of stages"
            gain = facts[ROW][0] / facts[GRAPH][0]
            paper = "no" if degrees == "none" else "yes"
            rows.append([where, paper, *shown, f"{facts[ROW][0] / same[0]:.3f}", f"{gain:.3f}"])
    words = (
        "Two branches of four layers on eight devices, with a mini-batch of 64. Two constants were fixed "
        f"before the run: a layer reaches half of its rate at {HALF_SAMPLES} samples, and the memory holds 25 "
        "samples of a layer. The published gain is 1.20, of which 1.10 comes from the shorter warm-up. The "
        "published depth of 4 needs the join outside of all stages; with the join in a stage, the depth is 5. "
        "The published plans have no data parallelism. Where it is allowed, both planners find faster plans."
    )
    head = ["join", "data parallelism", "sequential", "graph", "gain at the sequential b", "gain"]
    return _table("Case study", words, head, rows)


# ---- trends ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Which plans are compared, on which network."""

    title: str
    cluster: str
    choice: str
    """fastest: the published method; any: all that the planners do where no option is given."""


SETTINGS = (
    Setting("as published, a network that takes no time", "summit-v100-ideal", "fastest"),
    Setting("as published, the assumed network", "summit-v100", "fastest"),
    Setting("all depths and cuts, the assumed network", "summit-v100", "any"),
)
Curves = dict[str, list[float]]
HEAD = ["sequential, ms", "its micro-batch, ms", "graph, ms", "gain, same b", "gain"]


def _gains(problem: GraphPipelineProblem, setting: Setting) -> tuple[list[object], list[float]]:
    row = {"depth": setting.choice}
    tree = {**row, "cuts": "any" if setting.choice == "any" else "tree"}
    options = {ROW: row, ABLATION: tree, GRAPH: tree}
    facts = [_facts(problem, pipeplan.solve(problem, planner=name, options=own)) for name, own in options.items()]
    gains = [facts[0][0] / entry[0] for entry in facts]
    shown = [f"{entry[0] * 1e3:.2f} (b {entry[1]}, depth {entry[2]})" for entry in facts]
    _say(f"{setting.title}: {problem.name} {gains}")
    return [*shown, f"{gains[1]:.3f}", f"{gains[2]:.3f}"], gains[1:]


def _trends(setting: Setting) -> tuple[list[str], tuple[Curves, Curves]]:
    """Tables over devices and over branches, the curves in them, and in words where these grow."""
    words = (
        "Gains of stages that form a graph, with the sequential pipeline's micro-batch size (`same b`) and "
        "with their own."
    )
    rows, by_devices, by_branches = [], Curves(), Curves()
    for name, build in MODELS.items():
        for devices in DEVICES:
            shown, gains = _gains(build(devices=devices, cluster=setting.cluster), setting)
            rows.append([name, devices, *shown])
            by_devices.setdefault(name, []).append(gains[1])
    lines = _table(f"Ablation: {setting.title}", words, ["model", "devices", *HEAD], rows)
    lines += [*map(_grows, by_devices, by_devices.values()), ""]
    rows = []
    for name, build, devices in ROWS_OF_BRANCHES:
        for branches in BRANCHES:
            count = devices or branches
            shown, gains = _gains(build(devices=count, branches=branches, cluster=setting.cluster), setting)
            rows.append([name, count, branches, *shown])
            key = f"{name}, {devices} devices" if devices else f"{name}, a device for each branch"
            by_branches.setdefault(key, []).append(gains[1])
    words = "The same layers in more branches. The published figure has 4, 8 and 16 branches on as many devices."
    lines += _table(f"Branches: {setting.title}", words, ["model", "devices", "branches", *HEAD], rows)
    return [*lines, *map(_grows, by_branches, by_branches.values()), ""], (by_devices, by_branches)


ROWS_OF_BRANCHES = (
    ("CANDLE-Uno", candle_uno, None),
    ("CANDLE-Uno", candle_uno, 8),
    ("CANDLE-Uno", candle_uno, 16),
    ("CANDLE-Uno", candle_uno, 32),
    ("MMT", mmt, 32),
)


def _grows(name: str, gains: list[float]) -> str:
    falls = sum(after < before - 1e-9 for before, after in itertools.pairwise(gains))
    words = "grows at every step" if not falls else f"falls at {falls} of {len(gains) - 1} steps"
    return f"- {name}: from {gains[0]:.3f} to {gains[-1]:.3f}, {words}."


def _chains() -> list[str]:
    rows: list[list[object]] = []
    asked = ((ROW, {"depth": "fastest"}), (GRAPH, PUBLISHED), (ROW, {}), (GRAPH, {}))
    for devices in DEVICES:
        problem = sequential(devices=devices)
        values = [pipeplan.solve(problem, planner=name, options=options).objective for name, options in asked]
        rates = [problem.mini_batch / value for value in values if value]
        first, second, *defaults = (f"{rate:.2f}" for rate in rates)
        rows.append([devices, first, second, "yes" if rates[0] == rates[1] else "no", *defaults])
    words = (
        "Samples per second of a row of 32 layers, where no stages can run side by side. The published method is "
        "compared with the sequential search for the same aim (`--option depth=fastest`). By default the graph planner "
        "may hold more samples and tries the plans of `shortest-iteration`, and gains by that alone."
    )
    head = ["devices", "sequential, fastest", "published method", "equal", "sequential, default", "graph, default"]
    return _table("Chains", words, head, rows)


# ---- the price of the decomposition ----------------------------------------------------------------------


def _price() -> list[str]:
    rows = []
    for title, chance in (("series-parallel", None), ("sparse", 0.25), ("dense", 0.5)):
        prices, equal, infeasible = [], 0, 0
        for seed in range(RANDOM_GRAPHS):
            problem = _random_problem(random.Random(seed), chance)
            tree, free, planned = _optima(problem)
            equal += (tree is None) == (planned is None) and (
                tree is None or abs(tree - (planned or 0)) <= 1e-6 * tree
            )
            if tree is None or free is None:
                infeasible += 1
            else:
                prices.append(tree / free)
        _say(f"{title} {prices}")
        dear = sum(price > 1 + 1e-6 for price in prices)
        middle, worst = statistics.mean(prices), max(prices)
        rows.append([title, RANDOM_GRAPHS, equal, infeasible, dear, f"{middle:.4f}", f"{worst:.3f}"])
    words = (
        "Random graphs of 8 operators on 4 devices with little memory. `equal` counts the graphs for which "
        "the dynamic program and `cp-graphpipe` over the decomposition agree. The price is the time per "
        "sample of the best plan over the decomposition, divided by that of the best plan over all convex "
        "sets."
    )
    head = ["graphs", "number", "equal", "no plan", "dearer", "mean price", "worst price"]
    return _table("Price of the decomposition", words, head, rows)


def _random_problem(rng: random.Random, chance: float | None) -> GraphPipelineProblem:
    """Any DAG where a chance for each arc is given, else two branches between a fork and a join."""
    arcs = {(u, v) for u in range(8) for v in range(u + 1, 8) if chance is not None and rng.random() < chance}
    if chance is None:
        cut = rng.randint(2, 5)
        rows = [list(range(1, cut)), list(range(cut, 7))]
        arcs = {(a, b) for row in rows for a, b in zip([0, *row], [*row, 7], strict=True)}
    operators = []
    for v in range(8):
        work, stash, output = rng.randint(1, 9), rng.randint(1, 6), rng.randint(0, 3)
        curve = TimeCurve((1.0, 4.0), (float(work), work * 3.0))
        operators.append(Operator(v, curve, curve, float(rng.randint(0, 3)), float(stash), float(output)))
    total = sum(2 * x.weight_bytes + 16 * x.stash_bytes for x in operators)
    memory = total * rng.choice((0.15, 0.25, 0.5))
    return GraphPipelineProblem(tuple(operators), tuple(sorted(arcs)), 16, 4, memory, Link(8.0, 0.05))


def _optima(problem: GraphPipelineProblem) -> tuple[float | None, float | None, float | None]:
    """Over the decomposition, over all convex sets, and what the dynamic program finds."""
    values = []
    for family in ("series-parallel", "convex"):
        options = {"family": family, "micro_batch": 2}
        result = pipeplan.solve(problem, formulation="cp-graphpipe", options=options, warm_start="none")
        assert result.found == pipeplan.Found.OPTIMAL or result.stop == pipeplan.Stop.INFEASIBLE, result.messages
        values.append(result.objective)
    answer = Search(problem, menu(problem, [2])).best()
    return values[0], values[1], None if answer is None else answer.value


# ---- picture ---------------------------------------------------------------------------------------------


def _draw(measured: list[tuple[Curves, Curves]], path: Path) -> None:
    """A row for each setting: over devices, and over branches."""
    from pipeplan.show.pictures import SMALL_PT, STYLES, canvas, write_picture
    from pipeplan.show.views import CATEGORIES

    with canvas(9.0, 3.4 * len(SETTINGS)) as figure:
        parts = figure.subfigures(len(SETTINGS), 1)
        for part, setting, both in zip(parts, SETTINGS, measured, strict=True):
            panels: Any = part.subplots(1, 2, sharey=True)
            part.suptitle(setting.title, fontsize=SMALL_PT + 1)
            for axes, curves, places, label in zip(
                panels, both, (DEVICES, BRANCHES), ("devices", "branches"), strict=True
            ):
                looks = zip(CATEGORIES, itertools.cycle(STYLES), curves.items(), strict=False)
                for colour, style, (name, gains) in looks:
                    axes.plot(places, gains, marker="o", color=colour, linestyle=style, label=name)
                axes.set_xscale("log", base=2)
                axes.set_xticks(places, [str(place) for place in places])
                axes.set_xlabel(label)
                axes.grid(alpha=0.3)
                handles, names = axes.get_legend_handles_labels()
                axes.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
            panels[0].set_ylabel("gain over the sequential pipeline")
        write_picture(figure, path)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(str(error))
