"""A kind of problem: a table of its types and functions, which imports each of them only when it is used.

Problems and results show themselves in an interpreter and in a notebook by a module that `pipeplan` names (`shown_by`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar

from .fields import AS_TEXT_NEVER

if TYPE_CHECKING:
    from fractions import Fraction

    from ..networks.profile.options import ProfileOptions
    from ..networks.profile.profile import Profile
    from ..schedule.from_plan import LoweredSchedule, ScheduleOptions
    from ..timeline.model import Pipeline
    from .cluster import Cluster
    from .errors import Violation


ProblemT = TypeVar("ProblemT")
PlanT = TypeVar("PlanT")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Arguments = ParamSpec("Arguments")


class Rules(Protocol):
    """The rules by which plans are judged: one frozen type for each way to judge, with its own options alone."""

    @property
    def objective(self) -> str:
        """The name of the amount that is minimised."""

    @property
    def plan_type(self) -> type:
        """The type of the plans that can be judged by these rules."""

    def violations(self, problem: Any, plan: Any) -> tuple[Violation, ...]:
        """Every broken rule; an empty tuple is a valid plan."""
        ...

    def value(self, problem: Any, plan: Any) -> float:
        """The objective of a plan without violations."""
        ...

    def evaluation(self, problem: Any, plan: Any) -> Any:
        """Everything that follows from a plan, with `to_json`."""
        ...

    def to_options(self) -> dict[str, Any]:
        """The options that ask for these rules."""
        ...


def load_address(address: str) -> Any:
    """The object at `module:attribute`, or the module where no attribute is named."""
    module, _, attribute = address.partition(":")
    module_or_part = importlib.import_module(module)
    return getattr(module_or_part, attribute) if attribute else module_or_part


@dataclass(frozen=True)
class Later(Generic[T_co]):
    """An object of another module, which `load` imports."""

    address: str
    """The address of the object, written as `module:attribute`."""

    def load(self) -> T_co:
        return load_address(self.address)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Function(Generic[Arguments, T_co]):
    """A function of another module, which is imported when it is called."""

    address: str
    """The address of the function, written as `module:attribute`."""

    def __call__(self, *arguments: Arguments.args, **named: Arguments.kwargs) -> T_co:
        return load_address(self.address)(*arguments, **named)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Samples:
    """What a micro-batch of a profile is, which a problem made of it does not say."""

    micro_batch: int | None
    """Number of samples in a micro-batch; None: nobody has said."""
    training: bool
    tokens: int | None = None
    """Tokens of one sample; None: a sample is no text, or its length is not known."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A problem that a profile became, with sentences on what was chosen for it and what it cannot say."""

    problem: Any
    notes: tuple[str, ...] = ()
    samples: Samples | None = None
    """None: the problem was not made of a profile."""
    profile: Profile | None = None
    """The profile that it was made of, before named GPUs or whole layers changed it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What `plan instances` shows of the packaged instances of a kind."""

    columns: Mapping[str, str]
    """Headings in the terminal, each with the text below it, where names of facts stand in braces."""
    variants: Mapping[str, str]
    """Variants whose best known values are listed, in this order, and their headings in the terminal."""
    note: str
    """What the headings of the variants mean."""


@dataclass(frozen=True)
class Kind(Generic[ProblemT, PlanT]):
    """One kind of problem: its types, its files, its rules, and what the packages above ask of it."""

    name: str
    schema: str
    """Name of the schema of its own files."""
    problem: Later[type[ProblemT]]
    """The type of its problems."""
    plans: Mapping[str, Later[type[PlanT]]]
    """The types of its plans, by the kind that a plan's file names."""
    read: Function[[Mapping[str, Any], Cluster, str], ProblemT]
    """Makes a problem of the JSON object of our own format, on the caller's cluster; the text is the problem's usual
    name."""
    write: Function[[ProblemT], dict[str, Any]]
    """The JSON object of our own format."""
    rules: Function[[ProblemT, Mapping[str, Any]], Rules]
    """The rules by which a plan is judged, from a method's options or from those that a result names."""
    facts: Function[[ProblemT], dict[str, Any]]
    """Facts that a report gives of a problem beside its name."""
    size: Function[[ProblemT], str]
    """A problem's size in words."""
    cluster: Mapping[str, str]
    """Fields of the cluster that the caller may give, each with the field of the problem that it sets."""
    adjust: Function[[ProblemT, Cluster], ProblemT] | None = None
    """The problem on that cluster; None: its fields are what the caller says."""
    published: tuple[str, ...] = ()
    """Keys that tell a published file of this kind; none: nobody has published any."""
    read_published: Function[[Mapping[str, Any], Cluster, str], ProblemT] | None = None
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options of the rules, with their values; the first is the default."""
    pipeline: Function[[ProblemT, PlanT, int | None, str], Pipeline] | None = None
    """The pipeline that the simulator runs for a plan, for so many micro-batches and a schedule."""
    to_schedule: Function[[ProblemT, PlanT, ScheduleOptions], LoweredSchedule] | None = None
    """The schedule problem that a plan's stages make, with notes."""
    from_profile: Function[[Profile, Cluster, ProfileOptions], Lowered] | None = None
    """The problem that a profile becomes on that cluster, with notes on what it loses."""
    profile_options: tuple[str, ...] = ()
    """Options of profiles that this lowering knows, beside those that all know."""
    counted: str = "micro-batches"
    """Noun for what passes through a pipeline."""
    runs_on: str = "these problems run on devices"
    """Says on what these problems run, where that is never a CPU."""
    listing: Listing | None = None
    """How its packaged instances are listed; None: there are none."""
    periodic: bool = False
    """Do its plans repeat themselves, so that they can be shown from the first batch on?"""
    stage_order: Function[[ProblemT, PlanT], tuple[str, ...] | None] | None = None
    """The names of what holds a plan's stages, in their order; None where they have none."""
    held: Function[[ProblemT, PlanT, Mapping[str, Any]], Fraction] | None = None
    """What the fullest device holds, in bytes and exactly."""
    read_plan: Function[[str, ProblemT], PlanT] | None = None
    """The plan in a file that is no JSON; None: all its plans are JSON."""
    complete: Function[[ProblemT, PlanT], PlanT] | None = None
    """The plan of a person, completed by what its decisions imply; None: such plans say everything."""
    each_memory: Function[[ProblemT, float | None], ProblemT] | None = None
    """The problem with so much memory on each device; None: it has one field for all of them."""
    trains: Function[[ProblemT], bool] | None = None
    """Does a problem have backward passes, and so iterations? None: all of this kind do, or a simulation tells."""

    @property
    def batch(self) -> str | None:
        """The field of its problems that says how much passes through a pipeline between two updates, if one does."""
        return self.cluster.get("batch")

    def on_cluster(self, problem: Any, cluster: Cluster) -> Any:
        """The problem on the caller's cluster."""
        from .cluster import changes

        if self.adjust is not None:
            return self.adjust(problem, cluster)
        values = changes(self, cluster)
        return problem.replace(**values) if values else problem

    def with_memory(self, problem: Any, memory_bytes: float | None) -> Any:
        """The problem with so much memory on each device, whatever its type; None: without a limit."""
        if self.each_memory is not None:
            return self.each_memory(problem, memory_bytes)
        return problem.replace(memory_bytes=memory_bytes)


# Where the functions and objects of our kinds stand in the kind's folder, unless a kind says otherwise.
USUAL: Mapping[str, Function[..., Any] | Later[Any]] = {
    "read": Function("kind_functions:read"),
    "facts": Function("kind_functions:facts"),
    "size": Function("kind_functions:size"),
    "pipeline": Function("kind_functions:pipeline"),
    "rules": Function("rules:rules_of"),
    "from_profile": Function("from_profile:lower"),
    "adjust": Function("kind_functions:adjusted"),
    "each_memory": Function("kind_functions:with_memory"),
    "held": Function("kind_functions:held"),
    "to_schedule": Function("simulated:lower"),
}


def kind_in(name: str, **entries: Any) -> Kind[Any, Any]:
    """One of our kinds, by the entries that `USUAL` lacks or has otherwise; their addresses begin in its folder."""
    folder = name.replace("-", "_")

    def in_folder(entry: Any) -> Any:
        if isinstance(entry, Mapping):
            return {name: in_folder(each) for name, each in entry.items()}
        if isinstance(entry, (Function, Later)):
            return replace(entry, address=f"pipeplan.instances.{folder}.{entry.address}")
        return entry

    return Kind(name=name, schema=f"pipeplan.{name}/1", **in_folder({**USUAL, **entries}))


def chosen(options: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """The option's value where it is one of the choices, else the first."""
    value = options.get(name)
    return value if isinstance(value, str) and value in choices else choices[0]


# ---- how values show themselves ----------------------------------------------------------------------

_display: list[Later[Any]] = []


def shown_by(address: str) -> None:
    """Name the module that knows how values are shown: `brief`, `html`, `show` and `plot` are its functions."""
    _display[:] = [Later(address)]


def display() -> Any:
    """The module that shows values."""
    return _display[0].load()


class Displayed:
    """A value that an interpreter shows in three lines, a notebook with tables, and `show` in full."""

    __slots__ = ()

    def __repr__(self) -> str:
        return display().brief(self)  # type: ignore[no-any-return]

    def _repr_html_(self) -> str:
        return display().html(self)  # type: ignore[no-any-return]

    def show(self) -> None:
        """Print all that is worth knowing of it, as `plan solve` and `plan show` do."""
        display().show(self)


class AnyProblem(Displayed):
    """A problem of any kind: `replace` makes variants of it, which are checked at construction as it was."""

    __slots__ = ()

    @property
    def extensions(self) -> frozenset[str]:
        """What a method must be able to plan beyond the flat problem."""
        return frozenset()

    def replace(self, **changes: Any) -> Self:
        """The problem with these fields changed."""
        problem: Any = self
        return replace(problem, **changes)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AnyPlan(Displayed):
    """A plan of any kind: it holds decisions alone, and that of a result knows for what it was judged."""

    judged: tuple[Any, Mapping[str, Any]] | None = field(default=None, compare=False, metadata=AS_TEXT_NEVER)
    """Its problem and the options of its rules, for its loads and its picture; None: a plan by itself has neither."""


class Picture:
    """A drawn picture: a notebook shows it, and `svg` is its text."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


# ---- generators ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Generator:
    """A family of problems, as `plan generate` offers it."""

    title: str
    build: Callable[..., Any]
    """Makes a problem of the parameters that are given, by name; each has a default."""
    parameters: tuple[str, ...]
    """Those that `plan generate` offers; `pipeplan/studies/generate.py` says what each of them means."""
