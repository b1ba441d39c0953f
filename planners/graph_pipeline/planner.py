"""`graphpipe`, and what the paper compares it with: sequential pipelines, and its own stages with their micro-batches.

For each micro-batch size the search finds the least time per sample of the slowest stage, exactly within its family of
stages; the simulator then says which size makes the shortest iteration. Time per sample knows nothing of filling and
draining, so plans that are slower but hold fewer samples in flight are simulated as well (unless `depth` is "fastest"),
and those of a second program, which knows what an iteration takes at least (`iterations`).
The optimum over a family of stages is no bound for other plans; the bound that is reported holds for all of them, and
is proven apart from the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from ...formulations.graphpipe.more_in_flight import with_more_in_flight
from ...instances.base.result import Stop, met
from ...instances.graph_pipeline.plan import StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem, micro_batch_sizes
from ...instances.graph_pipeline.series_parallel import contracted
from ...instances.registry import evaluation_of, violations_of
from ..contract import Outcome, Request
from ..referee import rule, rules_of
from ..search import OutOfTimeError, tick_of
from .bounds import lower_bound
from .configurations import menu, stage_graphs
from .iterations import Iterations, OutOfStepsError
from .search import Answer, Search, chain_tree

Family = Literal["graph", "sequential"]

# The planner over a row of all operators.
SEQUENTIAL = "spp-pipedream"

# Plans of up to this many times the best iteration may become the best with more samples in flight, ...
NEAR = 1.05

# ... which is tried on this many of them, at most.
MOST_NEAR = 4

# What results say: why there is no plan, and how a bound was proven.
ROUNDED_MEMORY = "memory has more digits than are counted: there is no plan for a hair less of it"
SHORTER = "every shorter iteration of stages of the decomposition was refuted by a dynamic program"

# Limit on the steps of the program for short iterations, where its bound is not asked for.
MOST_STEPS = 1_300_000


def in_a_row(plan: StageGraphPlan) -> StageGraphPlan:
    """The plan with edges added by which each stage waits for the one before it."""
    following = {(i, i + 1) for i in range(len(plan.stages) - 1)}
    return replace(plan, edges=tuple(sorted({*plan.edges, *following})))


def sizes_of(request: Request) -> tuple[int, ...]:
    """The micro-batch sizes that the options allow."""
    mixed = bool(request.options.get("mixed_micro_batches"))
    return micro_batch_sizes(request.problem, request.options.get("micro_batch"), mixed)


def make_search(request: Request, family: Family, sizes: tuple[int, ...], inside: bool = False) -> Search:
    """The search with prices for all configurations that the options allow; `inside`: see `Costs`."""
    problem, options = request.problem, request.options
    choice = menu(problem, sizes, options.get("k", 1), options.get("degrees", "divisors"))
    tree = chain_tree(problem) if family == "sequential" else None
    return Search(problem, choice, tree, options.get("join", "any") == "any", tick_of(request), inside)


def answers(search: Search, mixed: bool) -> Iterator[Answer]:
    """The answer for each micro-batch size; `mixed`: also for all sizes up to each."""
    configurations = search.menu.configurations
    begins = [n for n, c in enumerate(configurations) if not n or c.b != configurations[n - 1].b]
    ends = [*begins[1:], len(configurations)]
    for begin, end in zip(begins, ends, strict=True):
        for first in sorted({0, begin} if mixed else {begin}):
            answer = search.best(slice(first, end))
            if answer is not None:
                yield answer


def busiest(problem: GraphPipelineProblem, plan: StageGraphPlan) -> float:
    """The longest time that a stage computes: no iteration is shorter."""
    return max(
        problem.mini_batch
        // stage.micro_batch
        * sum(
            operator.forward(stage.micro_batch / stage.devices)
            + operator.backward(stage.micro_batch / stage.devices)
            for operator in (problem.operators[problem.index[node]] for node in stage.nodes)
        )
        for stage in plan.stages
    )


def plan_stage_graph(request: Request) -> Outcome:
    """The dynamic program over the decomposition."""
    return bounded(request, run("graphpipe", request, "graph", sizes_of(request)))


def plan_sequential(request: Request) -> Outcome:
    """The dynamic program over a row of all operators."""
    return bounded(request, run(SEQUENTIAL, request, "sequential", sizes_of(request)))


def run(
    name: str, request: Request, family: Family, sizes: tuple[int, ...], iterations: Iterations | None = None
) -> Outcome:
    """The best plan over the sizes, or the best so far when the time is over.

    `iterations`: the program for short iterations, if its bound is wanted.
    """
    arranged = in_a_row if family == "sequential" else lambda plan: plan
    choice = _Choice(name, request, arranged, iterations=iterations)
    outcome = _run(choice, family, sizes)
    if not choice.refused:
        return outcome
    # Memory has more digits than are counted: search again in a smaller one, so that what fits surely fits.
    outcome = _run(choice, family, sizes, inside=True)
    nothing = outcome.plan is None and outcome.stop != Stop.TIME
    return replace(outcome, messages=(ROUNDED_MEMORY,)) if nothing else outcome


def _run(choice: _Choice, family: Family, sizes: tuple[int, ...], inside: bool = False) -> Outcome:
    """Search all sizes, and then offer `choice` the answers, shallower ones, and plans of other kinds."""
    name, request = choice.name, choice.request
    problem, options = request.problem, request.options
    stop, size = Stop.COMPLETED, {"stage_sets": 0}
    notes: tuple[str, ...] = ()
    answered: list[tuple[Search, Answer]] = []
    tried: list[Search] = []
    try:
        for search in _searches(request, family, sizes, inside):
            tried.append(search)
            size["stage_sets"] += search.family_size
            size["configurations"] = len(search.menu.configurations)
            notes = notes or remarks(problem, search)
            answered += [(search, answer) for answer in answers(search, bool(options.get("mixed_micro_batches")))]
        answered.sort(key=lambda pair: pair[1].value)
        for search, answer in answered:
            search.tick()
            choice.consider(search, answer)
        if choice.objective == "iteration" and options.get("depth", "any") == "any":
            for search, answer in answered:
                choice.consider_shallower(search, answer)
            if family == "graph" and options.get("cuts", "any") == "any":
                choice.consider_even(sizes, tried[0])
            if family == "graph" and choice.value is not None:
                choice.consider_short(sizes)
            if options.get("samples_held", "rule") == "more":
                choice.put_more_in_flight(tried[0])
    except OutOfTimeError:
        stop = Stop.TIME
    if choice.plan is None:
        return Outcome(
            stop, model_size=size, messages=notes if stop == Stop.TIME else (*notes, *_why_none(name, tried))
        )
    return Outcome(stop, choice.plan, choice.value, model_size=size, messages=notes)


def _why_none(name: str, searches: list[Search]) -> Iterator[str]:
    """What was searched, and the first operator that has no room on any device, if there is one."""
    yield f"no plan of those that {name} searches uses all devices within their memory"
    for search in searches[:1]:
        for v, operator in enumerate(search.problem.operators):
            if not search.costs.price_set([v]).most_in_flight.any():
                yield f"operator {operator.id} does not fit a device even alone, with one micro-batch: give more memory"
                return


def _searches(request: Request, family: Family, sizes: tuple[int, ...], inside: bool) -> Iterator[Search]:
    """The search over the decomposition, then one over the row of all operators, whose cuts go across branches.

    Stages of that row wait only for the stages that their operators read from: they need not run one after the other.
    """
    search = make_search(request, family, sizes, inside)
    yield search
    row = chain_tree(request.problem)
    if family == "graph" and request.options.get("cuts", "any") == "any" and search.tree != row:
        yield make_search(request, "sequential", sizes, inside)


@dataclass
class _Choice:
    """The best plan so far, by its time per sample or by its simulated iteration."""

    name: str
    request: Request
    arranged: Callable[[StageGraphPlan], StageGraphPlan]
    plan: StageGraphPlan | None = None
    value: float | None = None
    refused: bool = False
    """Was there a plan that fits rounded numbers, but not the memory?"""
    near: list[tuple[float, StageGraphPlan]] = field(default_factory=list)
    """All plans that were simulated, with their values."""
    iterations: Iterations | None = None
    """The program for short iterations, where its bound is asked for."""

    @property
    def objective(self) -> str:
        return str(self.request.options.get("objective", "iteration"))

    def consider(self, search: Search, answer: Answer) -> None:
        """Take the plan of an answer if it is better, and if it fits the memory by the true sizes."""
        problem, plan = self.request.problem, self.arranged(answer.plan)
        if not search.costs.memory.exact and any(v.rule == "memory" for v in violations_of(problem, plan)):
            self.refused = True
        elif self.objective == "time-per-sample":
            self._take(plan, answer.value)
        elif not self._is_slow(answer):  # small micro-batches are, and there are many: most need not be simulated
            self._take(plan, evaluation_of(problem, plan).iteration)

    def _take(self, plan: StageGraphPlan, value: float | None) -> None:
        if value is not None:
            self.near.append((value, plan))
            if self.value is None or value < self.value:
                self.plan, self.value = plan, value
                self.request.board.post(plan, value)

    def consider_shallower(self, search: Search, answer: Answer) -> None:
        """Consider shallower and shallower plans, until some stage alone computes for as long as the best iteration."""
        if self._is_slow(answer):
            return
        for below in search.shallower(answer):
            if self._is_slow(below):
                return
            self.consider(search, below)

    def consider_even(self, sizes: tuple[int, ...], search: Search) -> None:
        """Consider even splits: they may fill and drain faster than all plans of the least time per sample."""
        for plan in stage_graphs(self.request.problem):
            search.tick()
            if plan.stages[0].micro_batch in sizes:
                self._consider_by_rules(plan)

    def consider_short(self, sizes: tuple[int, ...]) -> None:
        """Consider the first plans of the program for short iterations, then those that may beat the best plan."""
        options = self.request.options
        if options.get("mixed_micro_batches") or options.get("join", "any") != "any":
            return
        program = self.iterations or short_iterations(self.request, sizes, MOST_STEPS)
        if not program.possible or self.value is None:
            return
        try:
            for plan in program.climb(self.value):
                self._consider_by_rules(plan)
            if self.value > program.seen and not met(self.value, program.refuted):
                for plan in program.within(self.value):
                    self._consider_by_rules(plan)
        except OutOfStepsError:
            return

    def _consider_by_rules(self, plan: StageGraphPlan) -> None:
        """Consider a plan that the search did not make: the referee says whether it is a plan at all."""
        rules = rules_of(self.request.problem, self.request.options)
        self._take(plan, rule(self.request.problem, plan, rules).value)

    def put_more_in_flight(self, search: Search) -> None:
        """Try more samples in flight in those plans whose iteration is not much longer than the best one."""
        good = sorted((pair for pair in self.near if pair[0] <= (self.value or 0) * NEAR), key=lambda pair: pair[0])
        for value, plan in good[:MOST_NEAR]:
            self._take(*with_more_in_flight(self.request.problem, plan, value, search.tick))

    def _is_slow(self, answer: Answer) -> bool:
        return self.value is not None and busiest(self.request.problem, answer.plan) >= self.value


def short_iterations(request: Request, sizes: tuple[int, ...], most_steps: int | None = None) -> Iterations:
    """The program for short iterations with these options; with k > 1 it counts no transfers that nothing hides."""
    options = request.options
    waits, more_held = options.get("k", 1) == 1, options.get("samples_held", "rule") == "more"
    degrees = options.get("degrees", "divisors")
    program = Iterations(request.problem, sizes, degrees, waits, more_held, tick_of(request))
    program.most_steps = most_steps
    return program


def bounded(request: Request, outcome: Outcome) -> Outcome:
    """The outcome with the bound for all plans, those of other families and planners as well."""
    bound = lower_bound(request.problem, request.options, quick=request.out_of_time())
    request.board.post(bound=bound)
    return replace(
        outcome, bound=bound, checks=("work and paths of the graph take no less, proven apart from the search",)
    )


def remarks(problem: GraphPipelineProblem, search: Search) -> tuple[str, ...]:
    """Messages: what was kept whole because it is not series-parallel, and whether some branches were not merged."""
    notes = []
    regions = contracted(search.tree)
    if regions:
        count = "1 region is" if len(regions) == 1 else f"{len(regions)} regions are"
        named = ", ".join(str(problem.operators[v].id) for v in max(regions, key=len)[:5])
        notes.append(f"the graph is not series-parallel: {count} kept whole, the largest with {named}")
    if search.skipped_groups:
        notes.append(
            "branches of too many kinds are side by side: only those that follow each other may share a stage"
        )
    return tuple(notes)


def plan_shortest_iteration(request: Request) -> Outcome:
    """`graphpipe` over the decomposition alone, for the iteration, with the bound of the second program for it."""
    sizes = sizes_of(request)
    request = replace(request, options={**request.options, "cuts": "tree", "samples_held": "more"})
    program = short_iterations(request, sizes)
    program.watcher = lambda bound: request.board.post(bound=bound)
    outcome = run("shortest-iteration", request, "graph", sizes, program)
    outcome = replace(outcome, model_size={**outcome.model_size, "steps": program.steps})
    if not program.possible:
        note = "the graph is too deep, or has branches of too many kinds, for a bound by short iterations"
        return bounded(request, replace(outcome, messages=(*outcome.messages, note)))
    outcome = bounded(request, outcome)
    if outcome.bound is None or program.refuted <= outcome.bound:
        return outcome
    return replace(outcome, bound=program.refuted, checks=(SHORTER,))


def plan_with_micro_batch_of_a_row(request: Request) -> Outcome:
    """GraphPipe's stages with the micro-batch size that is best for a sequential pipeline."""
    sizes = sizes_of(request)
    # A board of its own: the sequential plan is not this planner's.
    apart = replace(request, board=replace(request.board, watcher=None))
    sequential = run(SEQUENTIAL, apart, "sequential", sizes)
    if not isinstance(sequential.plan, StageGraphPlan):
        return bounded(request, Outcome(sequential.stop, messages=sequential.messages))
    return bounded(request, run("graphpipe-parallel", request, "graph", (sequential.plan.stages[0].micro_batch,)))
