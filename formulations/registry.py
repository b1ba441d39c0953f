"""Every formulation by name: what `plan formulations` shows without importing a model or a solver.

A formulation is added by one entry here; its own options appear on the command line by themselves.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

from ..instances.base.errors import NotInstalledError
from ..instances.base.fields import plain
from ..instances.base.kind import load_address
from .contract import OptionSpec
from .family import Describe, Family
from .plugins import OURS, PluginError, blamed, blamed_method, installed, is_address, load_installed, load_named


def choice(name: str, text: str, choices: tuple[str, ...]) -> OptionSpec:
    """An option with these choices, of which the first one is the default."""
    return OptionSpec(name, "choice", choices[0], text, choices)


# The most that counts of samples, steps or sets may be: kernels compute with whole numbers of the machine.
MOST = 10**9


def count(name: str, default: int | None, most: int, text: str, least: int = 1) -> OptionSpec:
    """An option that is a whole number from `least` to `most`; None: without one the method chooses."""
    return OptionSpec(name, "int", default, text, least=least, most=most)


def flag(name: str, text: str, default: bool = False) -> OptionSpec:
    """An option that is on or off."""
    return OptionSpec(name, "flag", default, text)


NON_CONTIGUOUS = flag("non_contiguous", "Let devices hold any nodes; default: a chain of contiguous stages.")
OBJECTIVE = choice(
    "objective",
    "What to minimise. max-load: the largest forward and backward load; gpipe: the largest forward plus the largest "
    "backward load.",
    ("max-load", "gpipe"),
)
VARIANT = choice(
    "variant",
    "Form of the model. strong: with reductions and cuts that keep the optimum; plain: as in the paper.",
    ("strong", "plain"),
)
LATENCY = choice(
    "objective", "What to minimise. latency: the time from a sample's arrival to its last result.", ("latency",)
)
SUBGRAPHS_PER_DEVICE = count(
    "subgraphs_per_device", 1, 100, "Maximum number of pieces that an accelerator may run one after the other."
)
CHAIN_VARIANT = choice(
    "variant",
    "Form of the model. corrected: without the errors of the paper, and with bounds and cuts; printed: exactly as in "
    "the paper, for teaching.",
    ("corrected", "printed"),
)
ALLOCATION = OptionSpec(
    "allocation",
    "allocation",
    None,
    "The GPU of each layer: 0,1,1,0, or a file with a list, plan or result; then only the schedule is optimised.",
)
BATCHES_PER_PERIOD = count(
    "batches_per_period", 1, 1000, "Batches in one period (kFkB), each scheduled on its own."
)
SEMANTICS = choice(
    "semantics",
    "When weights are synchronised. paper: once per d micro-batches; reference: once per batch (d must divide N).",
    ("paper", "reference"),
)
FLUSHED = choice(
    "objective",
    "What to minimise. throughput: the largest load of a stage; flush: that load times (N + X - m) / N, for a pipeline "
    "that is emptied after each batch of N, with X stage copies in all and at least m of each stage.",
    ("throughput", "flush"),
)
MICRO_BATCH = count(
    "micro_batch", None, MOST, "Samples per micro-batch; default: try all powers of two that divide the batch."
)
GRAPHPIPE_FAMILY = choice(
    "family",
    "Possible stages. series-parallel: those of the decomposition, as in graphpipe; convex: all convex sets of "
    "operators.",
    ("series-parallel", "convex"),
)
MIXED_MICRO_BATCHES = flag("mixed_micro_batches", "Allow stages with different micro-batch sizes; slower.")
LARGEST_K = count(
    "k",
    1,
    MOST,
    "Largest group: stages may run 1, 2, 4, ... up to this many forward passes in a row, then as many backward passes.",
)
DEGREES = choice(
    "degrees",
    "Allowed numbers of devices per stage. divisors: those of its micro-batch; pow2: powers of two among them; none: "
    "only one.",
    ("divisors", "pow2", "none"),
)
GRAPHPIPE_OBJECTIVE = choice(
    "objective",
    "What to minimise. time-per-sample: the time per sample on the slowest stage, without bubbles; iteration: the "
    "simulated time of a mini-batch, for which the model has a close bound.",
    ("time-per-sample", "iteration"),
)
PERIOD = choice("objective", "What to minimise. period: the time from one micro-batch to the next.", ("period",))
GRAPHPIPE_OPTIONS = (GRAPHPIPE_FAMILY, MICRO_BATCH, MIXED_MICRO_BATCHES, LARGEST_K, DEGREES, GRAPHPIPE_OBJECTIVE)

_MAKESPAN = (
    "What to minimise. makespan: from the first start to the last end; span: the longest time that a device needs from "
    "its own first start to its own last end"
)
SCHEDULE_OBJECTIVE = choice("objective", f"{_MAKESPAN}.", ("makespan", "span"))
ANY_SCHEDULE_OBJECTIVE = choice(
    "objective",
    f"{_MAKESPAN}; period: the time between two micro-batches in the steady state.",
    ("makespan", "span", "period"),
)

# Options of training configurations.
FIX = OptionSpec("fix", "text", None, 'Consider only configurations with these values, as in "tensor=4 zero=1".')
FORBID = OptionSpec(
    "forbid", "text", None, 'Consider no configurations with any of these values, as in "virtual=1 context=8".'
)
LAYOUTS = choice(
    "layouts",
    "Layouts to consider. any: any number of units in each chunk; even: only those that the framework makes.",
    ("any", "even"),
)
MEMORY_ERROR = OptionSpec(
    "memory_error",
    "float",
    0.0,
    "Assumed error of predicted memory: plans must fit even if they need that much more. The default of plan configure "
    "is 3 %.",
    least=0,
    most=1,
)
SCOPE_OPTIONS = (FIX, FORBID, LAYOUTS, MEMORY_ERROR)
HEURISTIC_OPTIONS = (MEMORY_ERROR,)

# Names of arithmetic that methods share: methods with one of these in common never count as independent.
TARNAWSKI_MODELS = frozenset({"reductions of placements"})
BEAUMONT_MODELS = frozenset({"bounds and grids of chains"})
FINITE_MODELS = frozenset({"models of given micro-batches", "timetables"})
PERIODIC_MODELS = frozenset({"models of periods", "timetables"})


@dataclass(frozen=True, slots=True)
class Entry:
    """All that is known of a method without loading it; its class does not repeat this.

    `address` is ``module:attribute``, imported only by `load`.
    """

    name: str
    title: str
    problem_kind: str
    address: str
    options: tuple[OptionSpec, ...] = ()
    paper: str | None = None
    """Key of a paper in `papers.PAPERS`; any other text, as of another package's method, is shown as it stands."""
    exact: bool = True
    """Does the method prove a bound?"""
    seeded: bool = True
    """Can its answer depend on the random seed? A solver's can; a comparison runs other methods once."""
    needs: tuple[str, str] | None = None
    """A module that is not installed with the package, and the extra that brings it; None: it needs nothing more."""
    takes_start: bool = False
    """Does it start from a plan that it is given?"""
    extensions: frozenset[str] = frozenset()
    """What it can plan beyond the flat problem: "levels" (devices within devices), "types"."""
    scope: str | None = None
    """Address of the function that says for which plans its bounds hold (`family.Describe`); None: it has no bounds."""
    default: bool = False
    """Is it taken where no method is named? One of each kind of problems is."""
    example: str | None = None
    """The packaged instance that is planned where none is named; needed of defaults alone."""
    as_formulation: bool = False
    """Is it a planner made of several models, so that it may be named as a formulation, too?"""
    starts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Planners whose plans it is offered as a start, by what the user wants: "auto" or "dp". Those under "instead" are
    asked only where its solvers died and there is no plan."""
    start_options: Mapping[str, Any] = field(default_factory=dict)
    """Options for those planners that know them, so that their plans are of its family; {}: any plan will do."""
    checked_by: str | None = None
    """Name of an independent method that checks its proofs, while this one checks those of all others of its kind."""
    check_options: Mapping[str, Any] = field(default_factory=dict)
    """Options with which it checks another method, so that the bounds of each hold for the plans of the other."""
    check_solver: str = "auto"
    """The solver with which it checks: one alone, where a planner that is to be checked takes part in "auto"."""
    checked_with: Mapping[str, Any] = field(default_factory=dict)
    """Options with which it is checked; they come before `check_options` of the method that checks."""
    proves_anew: tuple[Mapping[str, Any], ...] = ()
    """Options, one set after the other, with which it may confirm stored proofs of other methods; (): it does not."""
    compiles_on: tuple[str, ...] = ()
    """Small packaged instances that need all of its machine code between them; (): it has none of its own."""
    asked_by: tuple[str, ...] = ()
    """Options that change the question, so that whoever gives one and names no method means this one."""
    explained_in: tuple[str, ...] = ()
    """The page of its equations, and the lesson that goes through them."""
    coarse_first: bool = True
    """Is a plan within 1 % proven before the best one? Not where values are few and far between."""
    arithmetic: frozenset[str] = frozenset()
    """Names, of our own, for arithmetic that several methods share. Methods with a name in common do not check each
    other; tests/test_independence.py compares this with what they import."""
    depends: tuple[str, ...] = ()
    """Files on which its answers depend beside its code: stored runs are made again when one of them changes."""
    twins: tuple[Entry, ...] = ()
    """Methods of the same name for other kinds of problems: the problem says which one is meant."""

    @property
    def all_kinds(self) -> tuple[Entry, ...]:
        """Itself and those of its name for other kinds of problems."""
        return (self, *self.twins)

    @property
    def declared(self) -> dict[str, OptionSpec]:
        """Options by name, of all kinds of problems."""
        return {spec.name: spec for entry in reversed(self.all_kinds) for spec in entry.options}

    def for_kind(self, kind: str) -> Entry:
        """The method of this name for problems of that kind; itself where there is none."""
        return next((entry for entry in self.all_kinds if entry.problem_kind in (kind, "any")), self)

    @property
    def module(self) -> str:
        """The module of its address; methods of one module count as one piece of code."""
        return self.address.partition(":")[0]

    def is_independent_of(self, other: Entry) -> bool:
        """Do they share no arithmetic, so that the word of one is evidence for the other?"""
        return self.module != other.module and not self.arithmetic & other.arithmetic

    @property
    def objectives(self) -> tuple[str, ...]:
        """Objectives that the method can minimise, where they may be chosen."""
        return next((spec.choices for spec in self.options if spec.name == "objective"), ())

    def check_installed(self) -> None:
        """Refuse a method before any work where what it needs is not installed."""
        if self.needs is not None and importlib.util.find_spec(self.needs[0]) is None:
            module, extra = self.needs
            raise NotInstalledError(
                f"{self.name!r} needs {module}; install it with pip install 'pipeplan[{extra}]', or choose another "
                "method."
            )

    def load(self) -> Any:
        """Import the method, where a function stands for what plans by it; one of another package tells mistakes in its
        code as those of the plug-in."""
        method = load_address(self.address)
        method = SimpleNamespace(plan=method) if isinstance(method, FunctionType) else method
        return method if self.module.partition(".")[0] == OURS else blamed_method(method, self.name, self.module)

    def family(self, problem: Any, options: Mapping[str, Any]) -> Family | None:
        """The plans of which its bounds speak; None where it has no bounds."""
        if self.scope is None:
            return None
        describe: Describe = load_address(self.scope)
        return blamed(describe, self.name, self.scope.partition(":")[0])(problem, options)

    @property
    def paper_words(self) -> str | None:
        """Its paper, in one line of text."""
        from .papers import PAPERS

        paper = PAPERS.get(self.paper or "")
        return self.paper if paper is None else paper.words

    def to_json(self) -> dict[str, Any]:
        options = [_told(spec, "name", "type", "default", "choices", "help") for spec in self.options]
        facts = {
            **_told(self, "name", "title", "problem_kind"),
            "paper": self.paper_words,
            **_told(self, "exact", "takes_start"),
            "extensions": sorted(self.extensions),
            "options": options,
        }
        return {**facts, "other_kinds": [twin.to_json() for twin in self.twins]} if self.twins else facts


def _told(record: object, *names: str) -> dict[str, Any]:
    return {name: plain(getattr(record, name)) for name in names}


# One row for each method.
# fmt: off
FORMULATIONS: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("ip-tarnawski", "Max-load placement on accelerators and CPUs, as an integer program", "placement",
            "pipeplan.formulations.tarnawski.formulation:FORMULATION", (NON_CONTIGUOUS, VARIANT, OBJECTIVE),
            paper="tarnawski2020placement", takes_start=True,
            scope="pipeplan.formulations.tarnawski.formulation:family", default=True, example="bert-large-training",
            starts={"auto": ("linear-dp", "greedy"), "dp": ("dp",)},
            proves_anew=({"variant": "strong"}, {"variant": "strong", "non_contiguous": True}),
            arithmetic=TARNAWSKI_MODELS, explained_in=("docs/models/ip-tarnawski.md",)),
        Entry("ip-tarnawski-latency", "Latency of one sample on accelerators and a CPU pool, as an integer program",
            "placement", "pipeplan.formulations.tarnawski_latency.formulation:FORMULATION",
            (SUBGRAPHS_PER_DEVICE, VARIANT, LATENCY), paper="tarnawski2020placement", takes_start=True,
            scope="pipeplan.formulations.tarnawski_latency.formulation:family",
            starts={"auto": ("latency-lns",), "dp": ("latency-dp",)}, arithmetic=TARNAWSKI_MODELS,
            explained_in=("docs/models/latency.md",)),
        Entry("ilp-beaumont", "Periodic 1F1B patterns of chains, with exact memory, as an integer program", "chain",
            "pipeplan.formulations.beaumont.ilp:FORMULATION", (CHAIN_VARIANT, ALLOCATION),
            paper="beaumont2020pipelined", takes_start=True, scope="pipeplan.formulations.beaumont.bounds:family",
            starts={"instead": ("contiguous",)}, proves_anew=({"variant": "corrected"},), coarse_first=False,
            arithmetic=BEAUMONT_MODELS,
            explained_in=("docs/models/ilp-beaumont.md", "notebooks/03-reading-the-ilp.ipynb")),
        Entry("cp-beaumont", "Periodic patterns of chains, one or more batches per period, as a CP-SAT model",
            "chain", "pipeplan.formulations.beaumont.cp:FORMULATION", (BATCHES_PER_PERIOD, ALLOCATION),
            paper="beaumont2020pipelined", takes_start=True, scope="pipeplan.formulations.beaumont.bounds:family",
            starts={"instead": ("contiguous",)}, proves_anew=({},), coarse_first=False, arithmetic=BEAUMONT_MODELS,
            explained_in=("docs/models/cp-beaumont.md",)),
        Entry("mip-piper",
            "Stages with data and tensor parallelism, on cluster levels or device types, as a mixed-integer program",
            "staging", "pipeplan.formulations.piper.formulation:FORMULATION", (SEMANTICS, FLUSHED),
            paper="tarnawski2021piper", takes_start=True,
            extensions=frozenset({"levels", "types", "no replicas", "zero"}),
            scope="pipeplan.formulations.piper.formulation:family",
            starts={"auto": ("dp-piper",), "dp": ("dp-piper",)}, proves_anew=({},),
            explained_in=("docs/models/mip-piper.md",)),
        Entry("cp-graphpipe", "Stages that form a graph, as a CP-SAT model", "graph-pipeline",
            "pipeplan.formulations.graphpipe.formulation:FORMULATION", GRAPHPIPE_OPTIONS, paper="jeon2025graphpipe",
            takes_start=True, scope="pipeplan.formulations.graphpipe.scope:family", starts={"auto": ("graphpipe",)},
            start_options={"cuts": "tree", "samples_held": "more"}, check_options={"family": "convex"},
            check_solver="cp-sat", proves_anew=({"family": "convex"}, {"family": "series-parallel"}),
            explained_in=("docs/models/cp-graphpipe.md",)),
        Entry("cp-schedule", "Schedules of given micro-batches, as a CP-SAT model", "schedule",
            "pipeplan.formulations.zero_bubble.finite:FORMULATION", (SCHEDULE_OBJECTIVE,), takes_start=True,
            scope="pipeplan.formulations.zero_bubble.scope:family", starts={"instead": ("list-schedule",)},
            proves_anew=({"objective": "makespan"}, {"objective": "span"}), coarse_first=False,
            arithmetic=FINITE_MODELS, explained_in=("docs/models/schedules.md",)),
        Entry("ilp-zero-bubble",
            "Schedules of given micro-batches, as an integer program that orders every two blocks on a device",
            "schedule", "pipeplan.formulations.zero_bubble.ilp:FORMULATION", (SCHEDULE_OBJECTIVE,),
            paper="qi2024zero", takes_start=True, scope="pipeplan.formulations.zero_bubble.scope:family",
            checked_by="cp-schedule", proves_anew=({"objective": "makespan"}, {"objective": "span"}),
            starts={"instead": ("list-schedule",)}, coarse_first=False, explained_in=("docs/models/schedules.md",)),
        Entry("cp-periodic", "Periodic schedules on devices with limited memory, as a CP-SAT model", "schedule",
            "pipeplan.formulations.zero_bubble.periodic_cp:FORMULATION", (PERIOD,), takes_start=True,
            scope="pipeplan.formulations.zero_bubble.scope:family", starts={"auto": ("list-schedule",)},
            proves_anew=({},), coarse_first=False, arithmetic=PERIODIC_MODELS,
            explained_in=("docs/models/periodic.md",)),
    )
}
# fmt: on

# Entry points of this group bring formulations of other packages; each is the address of an `Entry`.
GROUP = "pipeplan.formulations"

# Functions that every formulation must have (`contract.Formulation`).
DUTIES = ("check", "contiguity", "portfolio", "lower_bound", "build")


def find_formulation(name: str) -> Entry | None:
    """The formulation of this name: ours, another package's, or the one at an address; None: there is none."""
    return FORMULATIONS.get(name) or plugged_in(name, GROUP, DUTIES)


@cache
def plugged_in(name: str, group: str, duties: tuple[str, ...], convert: Any = None) -> Entry | None:
    """The method of another package, known by the name that the user gives; None: there is none."""
    if is_address(name):
        entry = load_named(name, Entry, convert)
    elif name in (points := installed(group)):
        entry = load_installed(points[name], Entry)
    else:
        return None
    _check_duties(name, entry, duties)
    return replace(entry, name=name)


def _check_duties(name: str, entry: Entry, duties: tuple[str, ...]) -> None:
    try:
        method = entry.load()
    except Exception as error:  # whatever is wrong in somebody else's module
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(
            f"{name!r}", f"at {entry.address!r}: {reason}", "mend its address or its module"
        ) from error
    missing = [duty for duty in duties if not callable(getattr(method, duty, None))]
    if missing:
        raise PluginError(f"{name!r}", f"{entry.address!r} has no {', '.join(missing)}", "see docs/extending.md")
