"""An instance by name or file, on the cluster that the caller describes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .base.cluster import Cluster as Cluster
from .base.errors import InputError, UsageError, did_you_mean, show, wrong_argument
from .base.json_file import MAX_FILE_BYTES, STDIN, beside, read_text
from .base.kind import Lowered
from .base.result import Result
from .registry import is_plan, is_problem, kind_of, plan_kinds

if TYPE_CHECKING:
    from .networks.profile.options import ProfileOptions
    from .registry import KindName, Plan, Problem


def cluster_of(given: Mapping[str, Any]) -> Cluster:
    """The cluster of options by their names, among them `inference` and options of profiles."""
    own = {name: value for name, value in given.items() if name in Cluster.__dataclass_fields__}
    training = False if given.get("inference") else None
    profile = {name: value for name, value in given.items() if name not in own and name != "inference"}
    if not profile:
        return Cluster(**own, training=training)
    from .networks.profile.options import ProfileOptions

    return Cluster(**own, training=training, profile=ProfileOptions(**profile))


def load(
    path: str | os.PathLike[str],
    *,
    kind: KindName | None = None,
    format: str | None = None,
    devices: int | str | None = None,
    cpus: int | None = None,
    memory_bytes: float | None = None,
    bandwidth: float | None = None,
    cpu_slowdown: float | None = None,
    training: bool | None = None,
    batch: int | None = None,
    levels: Sequence[tuple[int, float]] | None = None,
    time_unit: str | None = None,
    profile: ProfileOptions | None = None,
    max_bytes: int = MAX_FILE_BYTES,
) -> Problem:
    """Read a problem from a file, or take a packaged one; the arguments may change its cluster.

    Parameters
    ----------
    path : str or PathLike
        The file, or the name of a packaged instance or profile; a file of that name comes first.
    kind : str, optional
        The kind that the problem must be of, as `plan instances` names them ("placement", "chain"...). None: any.
    format : str, optional
        "own", "published" or "pipedream". None: the format is told from the content.
    devices : int or str, optional
        Number of accelerators, GPUs or devices; for profiles also GPUs by name: "2xa100-80gb,2xt4-16gb".
        None, here and below: what the file says. Profiles say nothing about a cluster: they require devices,
        memory_bytes and bandwidth, of which names of GPUs give the last two.
    cpus : int, optional
        Number of CPUs, for placements. None for a profile: 0.
    memory_bytes : float, optional
        Memory of a device in bytes; infinity is no limit.
    bandwidth : float, optional
        Bytes per second of the links, for chains, stagings and profiles; infinity: transfers take no time.
    cpu_slowdown : float, optional
        For profiles: the time on a CPU, divided by that on an accelerator. Required where there are CPUs.
    training : bool, optional
        For profiles: False leaves out the backward nodes. None: True.
    batch : int, optional
        Micro-batches in a batch of a staging or a schedule, samples in a mini-batch of a graph pipeline, or sequences
        in a batch of a training problem.
    levels : sequence of (int, float), optional
        For stagings and training problems: devices within devices, the innermost first, with the number of devices of
        a level and its bytes per second.
    time_unit : str, optional
        For stagings whose file names none: "s", "ms", "us" or "ns".
    profile : ProfileOptions, optional
        How a profile or a table of layers becomes a problem; None: a problem of `kind`, or of a kind that fits, with
        the usual costs.
    max_bytes : int
        A larger file is refused before it is read.

    Returns
    -------
    Problem
        The problem, checked, of the kind that its file has.

    Raises
    ------
    InputError
        The argument is no path, or the file cannot be read, is in no known format, is of another kind or holds a bad
        value: the message names the file and the field.
    UsageError
        There is neither a file nor a packaged problem of that name, there is no such format, or an argument says
        nothing about such a problem.
    """
    from .physics.hardware import devices_given  # the table of GPUs is read where one is named

    given = devices_given(devices)
    cluster = Cluster(
        *(given["devices"], cpus, memory_bytes, bandwidth, cpu_slowdown, training, batch, levels),
        time_unit=time_unit,
        profile=profile,
        gpus=given.get("gpus"),
    )
    from .files import asking, load_on
    from .networks.profile import packaged_profile_names

    if format is None and is_packaged(path):
        on = asking(cluster, kind) if kind is not None and path in packaged_profile_names() else cluster
        packaged: Problem = load_with_notes(str(path), on).problem
        if kind not in (None, packaged.kind):
            raise InputError("path", f"names a problem of the kind {packaged.kind}", f"name one of the kind {kind}")
        return packaged
    if format is None and isinstance(path, str) and _is_a_name(path):
        raise _no_such(path)
    return load_on(path, cluster, kind=kind, format=format, max_bytes=max_bytes).problem  # type: ignore[no-any-return]


def load_instance(text: str, on: Cluster) -> Problem:
    """The problem in a file, or the packaged one of that name, on the cluster of the command line."""
    return load_with_notes(text, on).problem  # type: ignore[no-any-return]


def load_with_notes(text: str, on: Cluster) -> Lowered:
    """The problem in a file, or the packaged one of that name, with notes where a profile or a table became it."""
    if os.path.exists(text) or _looks_like_a_path(text):
        from .files import load_on

        return load_on(text, on)
    from .catalogue import load_packaged, packaged_names

    if text in packaged_names():
        problem = load_packaged(text)
        return Lowered(kind_of(problem).on_cluster(problem, on))
    from .networks.profile import load_packaged_profile, packaged_profile_names

    if text in packaged_profile_names():
        from .lowering import on_cluster

        return on_cluster(load_packaged_profile(text), on)
    raise _no_such(text)


def _no_such(text: str) -> UsageError:
    from .catalogue import packaged_names
    from .networks.profile import packaged_profile_names

    names = (*packaged_names(), *packaged_profile_names())
    return UsageError(
        f"{show(text)} is neither a file nor a packaged instance{did_you_mean(text, names) or beside(text)}; "
        "`plan instances` lists the packaged ones (in Python: pipeplan.packaged_names())."
    )


def is_packaged(text: str | os.PathLike[str]) -> bool:
    """Is this the name of a packaged instance or profile, and of no file?"""
    from .catalogue import packaged_names
    from .networks.profile import packaged_profile_names

    return isinstance(text, str) and _is_a_name(text) and text in (*packaged_names(), *packaged_profile_names())


def _is_a_name(text: str) -> bool:
    return not (os.path.exists(text) or _looks_like_a_path(text))


def holds_profile(text: str) -> bool:
    """Is this a model without a cluster: a packaged profile, a table of layers, or a file with a profile?"""
    from .foreign import is_profile_text, looks_like_graph_txt, looks_like_table
    from .networks.profile import packaged_profile_names

    if looks_like_table(text) or (text in packaged_profile_names() and not os.path.exists(text)):
        return True
    content = ""
    with suppress(InputError):  # whoever reads the file says what is wrong
        if text == STDIN or text.endswith((".json", ".txt")):
            content = read_text(text)
    return is_profile_text(content) or looks_like_graph_txt(content)


def _looks_like_a_path(text: str) -> bool:
    if os.sep in text or text.endswith((".json", ".txt", ".csv", ".tsv", ".xlsx")):
        return True
    if "." not in text:
        return False
    from .foreign import names_a_model

    return names_a_model(text)


def packaged_by_hash(problem: Mapping[str, Any]) -> Problem:
    """The packaged instance that a result is about, by its name and hash."""
    from .catalogue import load_packaged, packaged_names

    name = problem.get("name")
    if name in packaged_names():
        packaged = load_packaged(str(name))
        if packaged.hash == problem.get("hash"):
            return packaged
    raise UsageError(
        "The result is about no packaged instance as it is packaged; name the instance, and the cluster if the run "
        "changed it."
    )


# ---- what a caller of a public function gives: a problem, plan or result, or how to get one ------------------

PROBLEM = "give the name of a packaged instance, the path of a file, or what pipeplan.load(path) returns"
PLAN = "give the plan of a result that found one (result.plan), or what pipeplan.load_plan(path) returns"
RESULT = "give what pipeplan.solve(problem) or pipeplan.load_result(path) returns"


def problem_of(given: object) -> Problem:
    """The problem itself, or the one in the file of that path, or the packaged one of that name; files come first."""
    if isinstance(given, (str, os.PathLike)):
        return load_instance(os.fsdecode(given), Cluster())
    if not is_problem(given):
        raise wrong_argument("problem", given, "a problem", PROBLEM)
    return given


def plan_of(given: object, argument: str = "plan") -> Plan:
    """The plan itself. Paths are not read: "dp" could be one as well, and a file has no type before it is read."""
    if not is_plan(given):
        raise wrong_argument(argument, given, "a plan", PLAN)
    return given


def plan_for(problem: Problem, given: object) -> Plan:
    """The plan itself, if it is one of the problem's kind."""
    plan = plan_of(given)
    if plan.kind not in kind_of(problem).plans:
        raise misfit(problem, plan)
    return plan


def misfit(problem: Problem, plan: Plan) -> UsageError:
    """The plan is one for another kind of problem."""
    fitting = " or ".join(plan_kinds(problem))
    return UsageError(
        f"A {plan.kind} plan does not fit a {problem.kind} problem; give a plan of the kind {fitting}."
    )


def result_of(given: object) -> Result:
    """The result itself, or an error that says how to get one."""
    if not isinstance(given, Result):
        raise wrong_argument("result", given, "a result", RESULT)
    return given
