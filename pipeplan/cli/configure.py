"""`plan configure`: the fastest configuration of a training framework, or the memory and time of given ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from ..instances.base.clock import now
from ..instances.base.errors import InputError, UsageError, show
from ..instances.base.quantities import listed, several
from ..instances.base.result import Stop
from ..show.console import print_json, say_note
from .arguments import Json, Progress, key_and_value, limits_for, reporter, with_limits
from .exits import INTERRUPTED, NO_PLAN, OK, graceful
from .signatures import declared, described, flag_of, flags_of, shared

if TYPE_CHECKING:
    from ..instances.training.problem import TrainingProblem
    from ..instances.training.referee import ConfigurationEvaluation
    from ..planners.training.measured import Fitted, FittedSorts, Saved
    from ..planners.training.runs import RunError
    from ..planners.training.search import Report
    from ..studies.configure.answer import Answer, Asked
    from ..studies.configure.ladder import Rung

FRAMEWORKS = ("megatron", "torchtitan", "deepspeed", "megatron-deepspeed", "fsdp", "nanotron", "pytorch", "scaling")
MODEL, CLUSTER, SCOPE, RUNS = "Model and batch", "Cluster", "Scope", "Measured runs"
OUTPUT = "Output"

# Arguments of `instances.training.build.problem_of`, under the same names.
PROBLEM_OPTIONS = declared(
    f"""
    [{CLUSTER}]
    devices text NxGPU: The GPUs, e.g. 64xh100-80gb, by nodes: 8x8xh100-80gb, or of two sorts: 8xa100-80gb,8xh100-80gb.
        With --gpu, only their number.
    gpu text FILE: Your own device: a TOML file with its figures, or a file written by `plan calibrate`.
    levels levels LEVELS: Link bandwidth per GPU and direction, innermost level first, e.g. 8x450GB/s,8x50GB/s; default:
        a typical node with this GPU.
    memory_bytes size-or-none --memory SIZE: Usable memory per GPU as the driver reports it, e.g. 79GiB; none: no limit;
        default: the GPU's memory.
    reserve_bytes size --reserve SIZE: Memory per GPU set aside for driver and communication buffers; default: 1.5GiB.
    [{MODEL}]
    sequence tokens TOKENS: Tokens per sequence.
    batch int: Sequences per optimizer step (global batch size).
    lengths text LENGTHS: Lengths of packed documents, each with its share, e.g. 4096x0.9,32768x0.1; or a file with one
        length per line.
    layers int: Shorten or lengthen the model to this number of layers.
    dense_layers int: For mixture-of-experts models: number of dense layers at the start.
    prediction_layers int: Layers for multi-token prediction, which --layers does not change; default: as in the model.
    precision choice bf16|fp16|fp8: Number format; default: bf16.
    framework choice NAME: Framework that runs the plan: {", ".join(FRAMEWORKS)} (by Aleph Alpha); default: megatron.
    attention_kernel text NAME: Attention kernel: flash-1, flash-2, triton, fused-softmax, torch; default: by framework.
    optimizer text NAME: Optimizer, e.g. adam-mixed or muon; an unknown name prints the list.
    adapter_rank int --lora RANK: Train only LoRA adapters of this rank, on all matrix products of the layers.
    encoder text ENCODER: Vision encoder before the model: clip-vit-l-336, siglip-so400m-384, internvit-300m or
        internvit-6b, or sizes, e.g. layers=24,hidden=1024,heads=16,ffn=4096,tokens=576; images=4 alone changes the
        encoder in config.json, and none drops it.
    frozen choice PART: Part of the model that is not trained: encoder (its projector is trained nevertheless).
    no_flash_attention flag: Do not use FlashAttention, and store the matrix of attention scores.
    no_sequence_parallel flag: Do not use sequence parallelism: every tensor-parallel rank then holds all tokens between
        matrix products.
    dropout flag: The model uses dropout, so its masks are stored for the backward pass.
    fp8_weight_copy flag: For fp8: store a second copy of the weights.
    efficiency texts NAME=VALUE: Set one hardware efficiency, e.g. products=0.7; repeatable.
    """,
    framework={"choices": FRAMEWORKS},
    frozen={"choices": ("encoder",)},
)
SCOPE_OPTIONS = declared(
    """
    fix texts KEY=VALUE: Consider only configurations with this value; repeatable.
    forbid texts KEY=VALUE: Do not consider configurations with this value; repeatable.
    error share SHARE: Assumed error of predicted times, which decides how long the shortlist is; default: the error on
        published runs, at least 5%.
    memory_error share SHARE: Assumed error of predicted memory; default: the error on published runs, at least 3%.
    prefer choice NAME: Which configuration to choose among those at most 1 % slower than the fastest: simplest (the
        default), fastest or least-memory.
    """,
    prefer={"choices": ("fastest", "simplest", "least-memory")},
    panel=SCOPE,
)
# The options of the command line by the names of the problem's fields.
FIELDS = flags_of(PROBLEM_OPTIONS)


@shared("given", PROBLEM_OPTIONS)()
@shared("scope", SCOPE_OPTIONS)()
@with_limits("rel_gap", "time_limit_s")
@described(
    f"""
    model argument MODEL: A packaged model, a config.json or its folder, a profile or a layer table.
    judge texts WORDS: Show the memory and time of this configuration, e.g. "tensor=4 pipeline=2", or a framework's
        flags or configuration file; repeatable.
    why_not flag: With --judge: also search for the best configuration, and show where judged ones lose time.
    lose text N: Also plan for 1 to N lost nodes (or 0..N): the best configuration for the rest, and the current one (or
        that of --judge) with fewer replicas.
    [{RUNS}]
    measured texts FILE: Fit the efficiencies to your measured runs: a table, or a Megatron or torchtitan log;
        repeatable. In tables, peak_gib is torch.cuda.max_memory_allocated in GiB.
    efficiencies text FILE: Use fitted efficiencies that --fit-output wrote.
    fit_output output: Write the fitted efficiencies, for --efficiencies.
    template flag: Print an empty table of runs for --measured, and do nothing else.
    [{OUTPUT}]
    every flag --all: Print every configuration on the shortlist instead of one row per family.
    output output --output -o: Write the best configuration as a result (with --judge alone, the judged one).
    problem_output output: Write the problem (model, cluster, batch) for `plan solve`, `plan verify` and `plan show`.
    """
)
def command(
    *,
    model: str | None = None,
    given: dict[str, Any],
    judge: list[str] | None = None,
    why_not: bool = False,
    lose: str | None = None,
    scope: dict[str, Any],
    measured: list[str] | None = None,
    efficiencies: str | None = None,
    fit_output: str | None = None,
    template: bool = False,
    limits: dict[str, Any],
    json: Json = False,
    progress: Progress = None,
    every: bool = False,
    output: str | None = None,
    problem_output: str | None = None,
) -> None:
    """Find the fastest training configuration of a model, or show the time and memory of given configurations.

    Keys of a configuration: tensor, context, pipeline, virtual, expert, expert-tensor, data, micro-batch, zero,
    schedule, layout, recompute, first-pool.
    """
    if template:
        from ..planners.training.runs import template as table

        sys.stdout.write(table())
        return
    limits_for(limits)
    model, given = _from_script(model, given, judge or ())
    problem = problem_of_options(model, given)
    asked = asked_of_options(problem, scope)
    lost = () if lose is None else _lost(lose, problem, 0 if why_not else len(judge or ()))
    if efficiencies is not None:
        from ..planners.training.measured import saved_fit

        problem, asked = _with_fit(problem, asked, scope, saved_fit(efficiencies, problem))
    fit: Fitted | FittedSorts | None = None
    if measured:
        problem, asked, fit = _fitted(problem, asked, scope, measured, fit_output)
    from ..studies.configure.answer import Answer
    from ..studies.configure.judge import judge as judge_one

    judged = tuple(judge_one(problem, text, asked.memory_error) for text in judge or ())
    wanted = not judged or why_not
    if output is not None and not wanted and len(judged) > 1:
        raise UsageError(
            f"-o writes one configuration, but {len(judged)} are judged; give one, or --why-not to write the best."
        )
    if problem_output is not None:
        from ..instances.files import save

        save(problem if wanted or len(judged) > 1 else judged[0].problem, problem_output)
    begun = now()
    report = _search(problem, asked, limits, progress) if wanted else None
    answer = Answer(problem, asked, judged, report, fit)
    answer = answer.preferring(scope.get("prefer", "simplest"))
    seconds = now() - begun
    if output is not None:
        _save(answer, seconds, output)
    whole = answer.best if wanted else judged[0].evaluation
    rungs = _rungs(answer, whole, lost, scope, limits, progress)
    _say_assumed(problem, given, wanted)
    if json:
        print_json({**answer.to_json(), **({"ladder": [rung.to_json() for rung in rungs]} if lost else {})})
    else:
        from ..show.views.training import draw_answer

        draw_answer(answer, every)
        if rungs and whole is not None:
            from ..show.views.ladder import draw_ladder

            draw_ladder(rungs, whole)
    raise typer.Exit(_exit_code(answer))


def _fitted(
    problem: TrainingProblem, asked: Asked, scope: Mapping[str, Any], measured: Sequence[str], output: str | None
) -> tuple[TrainingProblem, Asked, Fitted | FittedSorts | None]:
    """The problem with the efficiencies that runs show, each sort of GPU by its own; `output`: a file for them."""
    fit: Fitted | FittedSorts | None = None
    from ..planners.training.measured import FittedSorts, fitted_by_sort, measured_runs, save_fit

    runs = [run for path in measured for run in measured_runs(path, problem)]
    fits = fitted_by_sort(problem, runs)
    if output is not None and len(fits) > 1:
        raise UsageError("--fit-output writes the fit of one sort of GPU, and runs are on two; give those of one.")
    for own in fits.values():
        problem, asked = _with_fit(problem, asked, scope, own)
        fit = FittedSorts(fits) if problem.second is not None else own
        if output is not None:
            save_fit(output, problem, own)
    return problem, asked, fit


def _say_assumed(problem: TrainingProblem, given: Mapping[str, Any], searched: bool) -> None:
    """Notes on what the command assumed because nobody gave it: links, prediction layers, efficiencies."""
    if problem.second is not None:
        from ..planners.training.pools import WAY_IN_WORDS

        rate = problem.second.bandwidth / 1e9
        say_note(f"assuming the links of typical nodes, and {rate:g}GB/s between the two sorts of GPUs")
        if searched:
            say_note(f"with GPUs of two sorts, the search considers only {WAY_IN_WORDS}")
    elif not {"levels", "gpu"} & {*given} and len(problem.levels) > 1:
        links = ",".join(f"{level.count}x{level.bandwidth / 1e9:g}GB/s" for level in problem.levels)
        say_note(f"assuming the links of typical nodes, {links}; use --levels to change this")
    predicting = problem.model.prediction_layers
    if predicting and "prediction_layers" not in given:
        counted = several(predicting, "layer")
        say_note(
            f"{problem.model.name} has {counted} for multi-token prediction; use --prediction-layers 0 to leave it out"
        )
    vision = problem.model.encoder
    if vision is not None and "images=" not in given.get("encoder", ""):
        images = f"{several(vision.images, 'image')} of {several(vision.tokens, 'patch')}"
        say_note(f"assuming {images} in each sequence; use --encoder images=N,tokens=N to change this")
    from ..instances.physics.hardware import assumed_of, unmeasured

    for pool in problem.pools:
        peak = pool.gpu.flops.get("bf16") or pool.gpu.flops["fp16"]
        assumed = assumed_of(pool.gpu.name, peak)
        if assumed is not None and pool.efficiencies == unmeasured(peak):
            say_note(f"{assumed}; use --efficiency or --measured to change this")


def _search(problem: TrainingProblem, asked: Asked, limits: Mapping[str, Any], progress: str | None) -> Report:
    """The search, which Ctrl-C and the time limit end early."""
    from ..studies.configure.search import search_configurations

    with graceful(), reporter(progress) as watch:
        return search_configurations(problem, asked, limits.get("time_limit_s"), watch)


def _lost(text: str, problem: TrainingProblem, judged: int) -> tuple[int, ...]:
    from ..studies.configure.ladder import lost_nodes

    if judged > 1:
        raise UsageError(f"--lose needs a single configuration, but {judged} are judged; give one --judge.")
    return lost_nodes(text, problem)


def _rungs(
    answer: Answer,
    whole: ConfigurationEvaluation | None,
    lost: tuple[int, ...],
    scope: Mapping[str, Any],
    limits: Mapping[str, Any],
    progress: str | None,
) -> tuple[Rung, ...]:
    """A search for each number of lost nodes, each within the time limit; `whole` is the configuration of all nodes."""
    if not lost or whole is None:
        return ()
    from ..studies.configure.answer import Answer
    from ..studies.configure.ladder import ladder

    def search(problem: TrainingProblem) -> Answer:
        report = _search(problem, answer.asked, limits, progress)
        return Answer(problem, answer.asked, report=report).preferring(scope.get("prefer", "simplest"))

    return tuple(ladder(replace(answer, problem=whole.problem), whole.plan, lost, search))


def _save(answer: Answer, seconds: float, path: str) -> None:
    from ..instances.files import save
    from ..studies.configure.result import result_of, result_of_judged

    searched = answer.report is not None
    save(result_of(answer, seconds) if searched else result_of_judged(answer.judged[0]), path)


def _exit_code(answer: Answer) -> int:
    """The exit code by the answer of a search, else by what was judged."""
    if answer.report is not None:
        interrupted = answer.report.cut == Stop.INTERRUPTED and not answer.listed
        return OK if answer.best is not None else INTERRUPTED if interrupted else NO_PLAN
    return OK if any(judgement.fits != "no" for judgement in answer.judged) else NO_PLAN


def _from_script(model: str | None, given: dict[str, Any], judge: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Model, GPUs, batch and sequence that nobody gives, as the first script or command line of `--judge` says them."""
    from ..instances.training.flag_options import is_path
    from ..studies.configure.judge import refuse_empty

    for text in judge:
        refuse_empty(text)
    devices = given.get("devices")
    counted = devices is not None and (devices.strip()[:1].isdigit() or "gpu" in given)
    wanted = [name for name in ("batch", "sequence") if given.get(name) is None]
    script = next((text.strip() for text in judge if "--" in text or is_path(text.strip())), None)
    if script is None or (model is not None and counted and not wanted):
        return model, given
    from ..instances.training.flags_model import job_in

    job = job_in(script)
    if model is None and job.model is None:
        raise UsageError(
            f"No MODEL is given, and {show(script)} lacks {listed(job.missing)} to say it; add that, or give MODEL."
        )
    if not counted and (job.gpus is not None or job.planned is not None):
        own = job.devices(None if devices is None else devices.strip())
        if own is None:
            raise UsageError(
                f"--devices is missing: {show(script)} starts {(job.nodes or 1) * (job.gpus or 1)} processes and does "
                "not say on which GPUs; give their name, as in --devices h100-80gb."
            )
        given = {**given, "devices": own}
    read = {name: value for name in wanted if (value := getattr(job, name)) is not None}
    usual = {"framework": job.framework} if model is None else {}
    return model or job.model, {**usual, **given, **read}


def problem_of_options(model: Any, given: Mapping[str, Any]) -> TrainingProblem:
    """The problem that was asked for; errors name the options of the command line."""
    if model is None:
        from ..instances.training.build import MODELS

        raise UsageError(
            f"No MODEL is given; choose one of {', '.join(MODELS)}, or give the path of a config.json."
        )
    for name, example in (("devices", "64xh100-80gb"), ("sequence", "8192"), ("batch", "256")):
        if given.get(name) is None:
            raise UsageError(f"{flag_of(name)} is missing; give it, as in {flag_of(name)} {example}.")
    from ..instances.training.build import problem_of

    facts = dict(given)
    for name in ("flash_attention", "sequence_parallel"):
        if facts.pop(f"no_{name}", False):
            facts[name] = False
    efficiencies = dict(key_and_value("--efficiency", text) for text in facts.pop("efficiency", ()))
    for name, value in efficiencies.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"--efficiency {name} is {show(value)}; give a number.")
    memory = facts.pop("memory_bytes", None)
    try:
        problem = problem_of(
            model,
            facts.pop("devices"),
            levels=facts.pop("levels", None),
            memory_bytes=None if memory == math.inf else memory,
            efficiencies=efficiencies,
            **facts,
        )
    except InputError as error:
        if error.file is not None:  # fields of files keep their names
            raise
        error = error.renamed(FIELDS)
        field = error.field.replace("efficiencies.", "--efficiency ")
        raise InputError(field, error.problem, error.remedy) from None
    from ..instances.training.kind_functions import with_memory

    return with_memory(problem, None) if memory == math.inf else problem


def asked_of_options(problem: TrainingProblem, scope: Mapping[str, Any]) -> Asked:
    from ..studies.configure.answer import asked_of

    errors = {name: scope[name] for name in ("error", "memory_error") if name in scope}
    for name, value in errors.items():
        if not 0 <= value < 1:
            raise UsageError(f"{flag_of(name)} is {value:g}; give a share from 0 to below 1, such as 5%.")
    return asked_of(problem, **errors, fix=scope.get("fix", ()), forbid=scope.get("forbid", ()))


# ---- runs that were made -------------------------------------------------------------------------------


def _with_fit(
    problem: TrainingProblem, asked: Asked, scope: Mapping[str, Any], fit: Fitted | Saved
) -> tuple[TrainingProblem, Asked]:
    """The fitted efficiencies, and the errors of the runs where the user names none.

    The errors are never below the usual ones: a few runs say nothing of configurations that are unlike them.
    """
    from ..instances.training.scope import Margin, both_sides
    from ..planners.training.measured import with_fit

    if fit.eps is not None and "error" not in scope:
        asked = replace(asked, error=max(asked.error, _below_one(fit.eps, "time", fit.worst_run, "--error")))
    if fit.memory_margin is not None and "memory_error" not in scope:
        usual, own = both_sides(asked.memory_error), fit.memory_margin
        _below_one(max(own.more, own.less), "peak", fit.worst_peak, "--memory-error")
        asked = replace(asked, memory_error=Margin(max(usual.more, own.more), max(usual.less, own.less)))
    return with_fit(problem, fit), asked


def _below_one(error: float, what: str, run: RunError | None, flag: str) -> float:
    """The error of a fit; one that is as large as the amounts themselves is refused, for no list can allow for it."""
    if error >= 1:
        whose = "a run" if run is None else run.name
        raise UsageError(
            f"The {what} of {whose} differs by {100 * error:.3g} % from its prediction, but the list needs an error "
            f"below 100 %; drop runs that contradict others or are of another model, or give {flag}."
        )
    return error
