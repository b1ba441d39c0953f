"""From a profile or a table to a problem: which kind, on which cluster, and what the reader should know of it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .base.cluster import Cluster, check_cluster, is_real, refuse_others, spelled
from .base.errors import InputError, UsageError, errors_in, one_of, show
from .base.json_file import MAX_FILE_BYTES, check_path, parse_json, read_text
from .base.kind import Kind, Lowered
from .base.quantities import listed
from .foreign import looks_like_graph_txt, looks_like_table, refuse_foreign_file
from .networks.profile import load_packaged_profile, packaged_profile_names
from .networks.profile.options import ProfileOptions, samples_of
from .networks.profile.pipedream import PUBLISHED_IN_FLIGHT, profile_name, read_graph_txt
from .networks.profile.profile import Profile, profile_from_json
from .networks.profile.table import read_table
from .networks.profile.work import on_gpus
from .physics.hardware import devices_given
from .registry import KINDS

# Options of a profile that ask for another setting.
SETTING = ("sequence", "micro_batch")
# Options of profiles that every lowering knows.
FOR_ALL = ("kind", "optimizer", "bytes_per_parameter", *SETTING)
# Options of profiles that make a profile a staging where no kind is asked for.
FOR_STAGING = ("data_parallel", "tensor_parallel", "efficiency")


def load_profile(
    path: str | os.PathLike[str], *, training: bool = True, bytes_per_parameter: float | None = None
) -> Profile:
    """Read a profile: a file of ours, a table of layers (.csv, .tsv) or one of PipeDream's graph.txt.

    Parameters
    ----------
    path : str or PathLike
        The file, or the name of a packaged profile, such as llama-3-8b.
    training : bool
        False: backward passes are not asked for, and left out where there are some.
    bytes_per_parameter : float, optional
        For a table with a column `parameters_count`: the bytes of one parameter. None: there is no such column.

    Returns
    -------
    Profile
        A model without a cluster.

    Raises
    ------
    InputError
        The argument is no path, or the file cannot be read: the message names the file, and the field or the cell.
    UsageError
        The size of a parameter is given for a profile, which holds bytes.
    """
    check_path(path)
    refuse_foreign_file(path)
    if looks_like_table(path):
        return read_table(path, training=training, bytes_per_parameter=bytes_per_parameter)
    if bytes_per_parameter is not None:
        raise UsageError(
            "--bytes-per-parameter is for tables, and a profile holds bytes; drop --bytes-per-parameter."
        )
    if str(path) in packaged_profile_names() and not os.path.exists(path):
        profile = load_packaged_profile(str(path))
        return profile if training else without_backward_passes(profile)
    text = read_text(path, max_bytes=MAX_FILE_BYTES)
    with errors_in(path):
        if looks_like_graph_txt(text):
            return read_graph_txt(text, name=profile_name(path), training=training)
        profile = profile_from_json(parse_json(text, str(path)))
    return profile if training else without_backward_passes(profile)


def without_backward_passes(profile: Profile) -> Profile:
    """The profile of the same model where nothing is trained."""
    nodes = tuple(
        replace(
            node,
            backward=0.0,
            saved_bytes=0.0,
            flops_backward=None,
            work=None if node.work is None else replace(node.work, backward=()),
        )
        for node in profile.nodes
    )
    return profile.replace(nodes=nodes, training=False)


def lower_file(path: str | os.PathLike[str], cluster: Cluster) -> Lowered:
    """The problem that a profile's file or a table becomes on the caller's cluster."""
    options = cluster.profile or ProfileOptions()
    training = cluster.training is not False
    profile = load_profile(path, training=training, bytes_per_parameter=options.bytes_per_parameter)
    with errors_in(path):
        return on_cluster(profile, cluster)


def load_graph_txt(path: str | os.PathLike[str], *, training: bool = True) -> Profile:
    """The profile in PipeDream's file graph.txt."""
    with errors_in(path):
        return read_graph_txt(read_text(path), name=profile_name(path), training=training)


def lower_graph_txt(text: str, path: str | os.PathLike[str], cluster: Cluster) -> Lowered:
    """The problem that PipeDream's graph.txt becomes: where no other kind is asked for, a placement as published."""
    options = cluster.profile or ProfileOptions()
    if options.kind is None and not _asked_for_staging(cluster, options):
        options = replace(options, kind="placement")
    training = cluster.training is not False
    if options.kind == "placement" and options.in_flight is None and training:
        options = replace(options, in_flight=PUBLISHED_IN_FLIGHT)
    with errors_in(path):
        profile = read_graph_txt(text, name=profile_name(path), training=training)
        return on_cluster(profile, replace(cluster, profile=options))


def lower(
    profile: Profile,
    *,
    kind: str | None = None,
    devices: int | str | None = None,
    cpus: int | None = None,
    memory_bytes: float | None = None,
    bandwidth: float | None = None,
    cpu_slowdown: float | None = None,
    batch: int | None = None,
    levels: Sequence[tuple[int, float]] | None = None,
    optimizer: str | None = None,
    in_flight: int | None = None,
    recompute: bool = False,
    data_parallel: bool = False,
    tensor_parallel: Sequence[int] = (),
    efficiency: float | str | None = None,
    zero: int | None = None,
    replicas: int | None = None,
    whole_layers: bool = False,
) -> Lowered:
    """A profile as a problem of a kind, by the rules that the kind's module `from_profile` documents.

    Parameters
    ----------
    profile : Profile
        The model, as `load_profile` returns it.
    kind : str, optional
        "placement", "chain", "staging", "graph-pipeline" or "training". None: one that fits, and the notes say why.
    devices : int or str, optional
        Number of devices, or GPUs by name: "2xa100-80gb,2xt4-16gb". None: the product of the levels' numbers, where
        there are levels.
    cpus : int, optional
        Number of CPUs, for placements. None: 0.
    memory_bytes : float, optional
        Memory of a device in bytes; infinity is no limit. None: that of the named GPUs; refused where none are named,
        since a profile says nothing of it.
    bandwidth : float, optional
        Bytes per second of the links; infinity: transfers take no time. None: that of the levels, or of the named GPUs.
    cpu_slowdown : float, optional
        The time on a CPU, divided by that on a device. None: there are no CPUs.
    batch : int, optional
        Micro-batches in a batch, or samples in a mini-batch. None: one micro-batch for each device.
    levels : sequence of (int, float), optional
        For stagings and training problems: devices within devices, the innermost first, with the bytes per second of
        each level. None: all links are alike.
    optimizer : str, optional
        "sgd", "adam", "adam-mixed", "muon" or another name of `instances/physics/optimizers.py`, which says how many
        copies of the parameters are held. None: "sgd".
    in_flight : int, optional
        For placements: micro-batches whose activations a device holds. None: as many as devices.
    recompute : bool
        For chains: activations are computed again; for stagings: they may be, layer by layer.
    data_parallel : bool
        For stagings: stages may have replicas.
    tensor_parallel : sequence of int
        For stagings: the numbers of devices that may share a layer.
    efficiency : float or str, optional
        What is left of the ideal speed where devices share a layer, or for each number of them: "2:0.97,4:0.93". None:
        what they exchange takes the time of their links.
    zero : int, optional
        For stagings and chains: the ZeRO stage, 0 to 3, by which replicas divide what they hold. None: they do not.
    replicas : int, optional
        For chains with `zero`: pipelines side by side that train the same weights. None: one.
    whole_layers : bool
        Layers stay whole, the embedding with the first and the head with the last, so that every stage holds a layer.

    Returns
    -------
    Lowered
        The problem, and sentences on what was chosen and what is lost.

    Raises
    ------
    InputError
        The model or the cluster cannot be such a problem; the message names the field.
    UsageError
        An option says nothing about such a problem, or something is missing.
    """
    options = ProfileOptions(
        *(kind, optimizer, in_flight, recompute, data_parallel, tuple(tensor_parallel), efficiency),
        zero=zero,
        replicas=replicas,
        whole_layers=whole_layers,
    )
    cluster = Cluster(
        cpus=cpus,
        memory_bytes=memory_bytes,
        bandwidth=bandwidth,
        cpu_slowdown=cpu_slowdown,
        batch=batch,
        levels=levels,
        profile=options,
        **devices_given(devices),
    )
    return on_cluster(profile, cluster)


def on_cluster(profile: Profile, cluster: Cluster) -> Lowered:
    """The problem of the kind that is asked for, or that fits what is given."""
    if is_real(sum(node.parameter_bytes for node in profile.nodes)):
        check_cluster(cluster)
    options = cluster.profile or ProfileOptions()
    profile, setting = at_setting(profile, options, cluster.gpus)
    if cluster.training is False and profile.training:
        profile = without_backward_passes(profile)
    name, reason = choose_kind(profile, cluster, options)
    read = profile
    kind = KINDS[name]
    if cluster.gpus is not None:
        profile, cluster, said = on_gpus(profile, cluster, kind)
        setting = (*setting, *said)
    _refuse_foreign(kind, profile, cluster, options)
    try:
        assert kind.from_profile is not None, kind.name  # only such kinds are chosen
        if options.whole_layers:
            from .networks.profile.profile import whole_layers

            profile = whole_layers(profile).profile
        lowered = kind.from_profile(profile, cluster, options)
    except InputError as error:
        raise _of_the_profile(error, profile) from None
    notes = (*setting, *reason, *lowered.notes, *_about_experts(profile))
    return Lowered(lowered.problem, notes, samples_of(read), read)


# Names of architectures whose layers hold experts.
_MANY_EXPERTS = re.compile(r"moe|mixtral|experts|deepseekv[23]", re.IGNORECASE)


def _about_experts(profile: Profile) -> tuple[str, ...]:
    """A sentence where layers hold experts, which other planners would divide."""
    by_name = any("experts" in name for node in profile.nodes for name in node.parameters)
    if not by_name and not _MANY_EXPERTS.search(str(profile.source.get("architecture", ""))):
        return ()
    return ("the experts of a layer stay together: plan configure plans expert parallelism, from a config.json",)


# The place of a layer in the field of an error, and the options that set the other fields.
_PLACE = re.compile(r"(?:nodes|layers|operators)\[(\d+)\](?:\.(\w+))?")
_OPTIONS = {
    "accelerators": "--devices", "gpus": "--devices", "devices": "--devices", "cpus": "--cpus",
    "memory_bytes": "--memory", "bandwidth": "--bandwidth", "cpu_slowdown": "--option cpu-slowdown",
    "micro_batches": "--batch", "mini_batch": "--batch",
}  # fmt: skip


def _of_the_profile(error: InputError, profile: Profile) -> InputError:
    """The error with the layer's name or the option in place of the problem's field, which the user has not seen."""
    match = _PLACE.match(error.field)
    if match is None:
        return error.renamed(_OPTIONS)
    # Placements have the backward nodes behind the forward nodes.
    layer = f"layer {show(profile.nodes[int(match[1]) % len(profile.nodes)].id)}"
    return InputError(f"{layer}, {match[2]}" if match[2] else layer, error.problem, error.remedy)


# ---- which kind ----------------------------------------------------------------------------------------


def choose_kind(profile: Profile, cluster: Cluster, options: ProfileOptions) -> tuple[str, tuple[str, ...]]:
    """The kind, and a sentence that says why where nobody asked for it."""
    able = [name for name, kind in KINDS.items() if kind.from_profile is not None]
    if options.kind is not None:
        one_of("--kind", options.kind, able)
        return options.kind, ()
    name, why = _fitting(profile, cluster, options)
    others = ", ".join(other for other in able if other != name)
    return name, (f"planned as a {name} problem, because {why}; use --kind for another kind ({others})",)


def _asked_for_staging(cluster: Cluster, options: ProfileOptions) -> list[str]:
    """The fields of cluster and options that the caller gave and that ask for a staging."""
    asked = [] if cluster.levels is None else ["levels"]
    return asked + [name for name in FOR_STAGING if name in options.given()]


def _fitting(profile: Profile, cluster: Cluster, options: ProfileOptions) -> tuple[str, str]:
    asked = _asked_for_staging(cluster, options)
    if asked:
        return "staging", f"{' and '.join(map(spelled, asked))} {'is' if len(asked) == 1 else 'are'} given"
    if cluster.cpus:
        return "placement", "there are CPUs"
    if options.in_flight is not None:
        return "placement", "--option in-flight is given"
    if options.replicas is not None:
        return "chain", "--replicas is given"
    if not profile.is_row and profile.training and (profile.has_curves or cluster.batch is not None):
        what = "times depend on the number of samples" if profile.has_curves else "--batch is given"
        return "graph-pipeline", f"its layers form a graph and {what}"
    if not profile.is_row and not options.recompute:
        return "placement", "its layers form a graph"
    return "staging", "its layers form a sequence" if profile.is_row else "--recompute is given"


def _refuse_foreign(kind: Kind[Any, Any], profile: Profile, cluster: Cluster, options: ProfileOptions) -> None:
    """Refuse what the kind does not know, since nothing that a user says is dropped in silence."""
    also = ("bandwidth", "training", "gpus", *(("cpu_slowdown",) if "cpus" in kind.cluster else ()))
    refuse_others(kind, replace(cluster, profile=None), also)
    for name in options.given():
        if name not in (*FOR_ALL, *kind.profile_options):
            fitting = listed([other.name for other in KINDS.values() if name in other.profile_options])
            option = spelled(name)
            raise UsageError(f"{option} is for {fitting} problems, and this is a {kind.name}; drop {option}.")
    if options.optimizer is not None and not profile.training:
        raise UsageError("--optimizer is for training, and nothing is trained here; drop --optimizer.")


# ---- a packaged language model at another sequence or micro-batch, made anew from its published shapes ---


def at_setting(profile: Profile, options: ProfileOptions, gpus: Any = None) -> tuple[Profile, tuple[str, ...]]:
    """The profile at the setting that is asked for, and a sentence on how it was made where it was made anew.

    That is also where GPUs are named: a language model then runs and keeps what training configurations say, and takes
    the same seconds and bytes as they do.
    """
    current: dict[str, Any] = {"sequence": profile.source.get("sequence"), "micro_batch": profile.micro_batch}
    asked: dict[str, int] = {name: getattr(options, name) for name in SETTING if getattr(options, name) is not None}
    if any(current[name] != value for name, value in asked.items()):
        words = " and ".join(f"{spelled(name)} {value}" for name, value in asked.items())
    elif gpus is not None and _has_shapes(profile):
        words = "GPUs by name"
    else:
        return profile, ()
    told = (
        f"{profile.name} was made anew for {words}, from its published shapes, with attention, norms and activations "
        "as fused kernels run and keep them"
    )
    return _made_anew(profile, options, {**current, **asked}), (told,)


def _of_known_shapes() -> list[str]:
    """Packaged profiles of models whose shapes are known."""
    from .training.build import MODELS

    return [name for name in packaged_profile_names() if name in MODELS]


def _has_shapes(profile: Profile) -> bool:
    return profile.name in _of_known_shapes() and profile == load_packaged_profile(profile.name)


def _made_anew(profile: Profile, options: ProfileOptions, setting: dict[str, Any]) -> Profile:
    from .physics.hardware import DEVICES
    from .training.build import MODELS
    from .training.to_profile import profile_of_model

    if not _has_shapes(profile):
        raise _refusal(profile, options, listed(_of_known_shapes()))
    model, source = MODELS[profile.name].model, profile.source
    hardware = next(device for key, device in DEVICES.items() if f"analytic: {key}," in source["times"])
    facts = {key: source[key] for key in ("config", "architecture")}
    return profile_of_model(
        model, hardware, facts, batch=setting["micro_batch"], sequence=setting["sequence"], dtype=source["dtype"]
    )


def _refusal(profile: Profile, options: ProfileOptions, known: str) -> UsageError:
    """The refusal, which tells what to type instead; that depends on how the profile was made."""
    given = [(name, getattr(options, name)) for name in SETTING if getattr(options, name) is not None]
    option, how = spelled(given[0][0]), str(profile.source.get("how", ""))
    words = " ".join(f"--{'sequence' if name == 'sequence' else 'batch'} {value}" for name, value in given)
    if how == "torch-export" or how.startswith("shapes"):
        sequence = f", sequence {profile.source['sequence']}" if "sequence" in profile.source else ""
        made = f"micro-batch {profile.micro_batch}{sequence}"
        model = "torch my.py:build" if "pytorch/" in str(profile.source.get("config")) else "hf config.json"
        return UsageError(
            f"{option} is for {known}, and {show(profile.name)} was made for {made}; import it again: "
            f"plan import {model} {words} --hardware h100-80gb -o new.profile.json."
        )
    return UsageError(
        f"{option} is for {known}, and {show(profile.name)} holds the amounts of one micro-batch as it "
        f"was measured; measure it again, or drop {option}."
    )
