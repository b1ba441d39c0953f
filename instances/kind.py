"""What there is for problems of one kind, by name: a table that holds no function and imports what it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .cluster import Cluster
    from .simulation.model import Pipeline
    from .violation import Violation


class Rules(Protocol):
    """By which rules plans are judged: one frozen type for each way to judge, with its own options alone."""

    @property
    def objective(self) -> str:
        """What is minimised."""

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
    """The object at `module:attribute`; imports the module."""
    module, _, attribute = address.partition(":")
    return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class Kind:
    """One kind of problem. Texts but `name`, `schema`, `counted` and `runs_on` are addresses, `module:attribute`."""

    name: str
    schema: str
    """Of its own files."""
    problem: str
    """The type of its problems."""
    plans: Mapping[str, str]
    """The types of its plans, by the kind that a plan's file names."""
    read: str
    """(JSON object of our own format, cluster, name) -> problem, on the caller's cluster."""
    write: str
    """problem -> JSON object of our own format."""
    rules: str
    """(problem, options) -> rules."""
    facts: str
    """problem -> what a report says of it beside its name."""
    size: str
    """problem -> its size in words."""
    cluster: Mapping[str, str]
    """What the caller may say of the cluster, and which field of the problem that is."""
    view: str
    """The module that knows how problems and plans are shown: `facts`, `value_name`, `view`."""
    adjust: str | None = None
    """(problem, cluster) -> the problem on that cluster; None: its fields are what the caller says."""
    published: tuple[str, ...] = ()
    """Keys by which a published file of this kind is known; none: nobody has published any."""
    read_published: str | None = None
    write_published: str | None = None
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Options of the rules, with their values; the first is the default."""
    upgrades: str | None = None
    """(problem, step) -> slightly better clusters."""
    pipeline: str | None = None
    """(problem, plan, micro-batches, schedule) -> what the simulator runs."""
    to_schedule: str | None = None
    """(problem, plan, `schedule.lowering_options.ScheduleOptions`) -> when its stages run what, with notes."""
    from_profile: str | None = None
    """(profile, cluster, options) -> what it becomes on that cluster, with notes on what it loses."""
    profile_options: tuple[str, ...] = ()
    """Options of profiles that this lowering knows, beside those that all know."""
    counted: str = "micro-batches"
    """What passes through a pipeline, in words."""
    runs_on: str = "these problems run on devices"
    """On what, in words, where that is never a CPU."""
    recipes: str | None = None
    """Its packaged instances."""
    generators: str | None = None
    """Families of its problems by name, each with its parameters (`generator.Generator`)."""
    remarks: str | None = None
    """problem -> sentences on what a reader should know of it as it was given."""
    periodic: bool = False
    """Do its plans repeat themselves, so that they can be shown from the first batch on?"""
    stage_order: str | None = None
    """(problem, plan) -> the names of what holds its stages, in their order; None where they have none."""
    latency: str | None = None
    """(problem, plan) -> how long one sample takes, or why that has no value."""
    about: str | None = None
    """problem -> what has to be computed to know it (`show.view.About`)."""
    network: str | None = None
    """(workload, accelerator, link, arguments) -> the problem of planning a known network."""
    network_arguments: Mapping[str, int | None] = field(default_factory=dict)
    """What it takes besides a cluster; a number is how much for each device where nothing else is said."""
    pareto: str | None = None
    """What `plan pareto` makes of it (`studies.pareto.study.Study`); None: no curve."""
    why_none: str | None = None
    """(problem, options, limits, proven) -> sentences on why there is no plan."""
    least_memory: str | None = None
    """(problem, options, limits, watcher) -> the least memory with a plan."""
    held: str | None = None
    """(problem, plan, options) -> what the fullest device holds, in bytes and exactly."""
    read_plan: str | None = None
    """(text, problem) -> the plan in a file that is no JSON; None: all its plans are JSON."""
    exports: Mapping[str, str] = field(default_factory=dict)
    """Frameworks that are told of a plan by its problem, not by the model: (problem, plan, options) -> the files."""
    each_memory: str | None = None
    """(problem, bytes) -> the problem with so much memory on each device; None: it has one field for all of them."""

    batch_grows: bool = False
    """Are its values of one micro-batch, so that a batch which nobody gave may grow with the devices?"""

    @property
    def batch(self) -> str | None:
        """The field of its problems that says how much passes through a pipeline between two updates, if one does."""
        return self.cluster.get("batch")

    def get(self, name: str) -> Any:
        """What stands at an address of this kind, None where it has none."""
        address = getattr(self, name)
        return None if address is None else load_address(address)

    def rules_of(self, problem: Any, options: Mapping[str, Any]) -> Rules:
        """From a method's options, or from those that a result names."""
        rules: Rules = self.get("rules")(problem, options)
        return rules

    def on_cluster(self, problem: Any, cluster: Cluster) -> Any:
        """The problem on the caller's cluster."""
        from .cluster import changes

        if self.adjust is not None:
            return self.get("adjust")(problem, cluster)
        found = changes(self, cluster)
        return problem.replace(**found) if found else problem

    def with_memory(self, problem: Any, memory_bytes: float | None) -> Any:
        """The problem with so much memory on each device, whatever its type; None: without a limit."""
        if self.each_memory is not None:
            return self.get("each_memory")(problem, memory_bytes)
        return problem.replace(memory_bytes=memory_bytes)

    def pipeline_of(self, problem: Any, plan: Any, micro_batches: int | None, schedule: str) -> Pipeline:
        """What the simulator runs."""
        pipeline: Pipeline = self.get("pipeline")(problem, plan, micro_batches, schedule)
        return pipeline


USUAL_ADDRESSES = {
    "read": "door:read",
    "facts": "door:facts",
    "size": "door:size",
    "pipeline": "door:pipeline",
    "rules": "rules:rules_of",
    "upgrades": "upgrades:upgrades",
    "recipes": "recipes:PACKAGED",
    "from_profile": "from_profile:lower",
}
"""In the folder of every kind of ours."""


def kind_in(folder: str, **own: Any) -> Kind:
    """A kind of ours, by what is its own."""
    usual: dict[str, Any] = {
        name: f"pipeplan.instances.{folder}.{address}" for name, address in USUAL_ADDRESSES.items()
    }
    return Kind(**{**usual, "view": f"pipeplan.show.views.{folder}", **own})


def chosen(options: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """The option's value where it is one of the choices, else the first."""
    value = options.get(name)
    return value if isinstance(value, str) and value in choices else choices[0]
