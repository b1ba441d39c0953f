"""The `plan` command: the list of its commands, and the one place where errors become sentences and exit codes."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..instances.base.clock import when_compiling
from ..instances.base.errors import PipeplanError, UsageError, did_you_mean, show
from ..instances.base.json_file import before_writing
from ..show.console import clean, say_error, say_in_json_lines, say_note
from .exits import BAD_INPUT, BROKEN_PIPE, INTERNAL, INTERRUPTED, OK, hear_no_more
from .signatures import modern, number

# Commands in the order of the help page, each with the module beside this one and the function in it.
COMMANDS: Mapping[str, str] = {
    "solve": "solve:command",
    "configure": "configure:command",
    "tune": "tune:command",
    "calibrate": "calibrate:command",
    "verify": "plans:verify",
    "show": "plans:show_plan",
    **{name: f"sweeps:{name}" for name in ("memory", "pareto")},
    "simulate": "plans:simulate_plan",
    "explore": "plans:explore",
    "schedule": "schedule:command",
    "export": "export:export",
    "run": "export:run_plan",
    "convert": "export:convert",
    "generate": "generate:command",
    "compare": "compare:command",
    "leaderboard": "compare:leaderboard",
    "report": "plans:report",
    "warm-up": "lists:warm_up",
    **{name: f"lists:{name}" for name in ("instances", "formulations", "planners", "solvers")},
}

# Commands of two words: by the first word, what it is for, and the second words in the form of `COMMANDS`.
GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "import": (
        "Make a profile (a model without a cluster) from another format, or a plan from layer counts.",
        {
            "table": "imports:table",
            "pipedream": "imports:pipedream",
            "torch": "imports:torch",
            "hf": "imports:hf",
            "megatron-layout": "imports:megatron_layout",
        },
    )
}

# Our options by the names that other programs give them; each counts where a command has it.
OTHER_WORDS = {
    **dict.fromkeys(("--gpus", "--gpu", "--num-gpus", "--ngpus", "--accelerators"), "--devices"),
    **dict.fromkeys(("--num-devices", "--workers", "--world-size"), "--devices"),
    **dict.fromkeys(("--out", "--outfile", "--save"), "--output"),
    **dict.fromkeys(("--seq", "--seq-length", "--seq-len", "--context", "--context-length"), "--sequence"),
    **dict.fromkeys(("--microbatches", "--num-microbatches", "--chunks"), "--micro-batches"),
    **dict.fromkeys(("--micro-batch-size", "--microbatch", "--mbs"), "--micro-batch"),
    **dict.fromkeys(("--batch-size", "--global-batch-size", "--gbs"), "--batch"),
    **dict.fromkeys(("--mem", "--ram", "--vram", "--gpu-memory"), "--memory"),
    **dict.fromkeys(("--timeout", "--max-time", "--time"), "--time-limit"),
    **dict.fromkeys(("--tolerance", "--mip-gap", "--rel-gap", "--mipgap"), "--gap"),
    **dict.fromkeys(("--algorithm", "--heuristic"), "--planner"),
    **dict.fromkeys(("--model", "--problem-type", "--type"), "--kind"),
    **dict.fromkeys(("--plot", "--figure", "--image", "--svg"), "--picture"),
    **dict.fromkeys(("--cores", "--jobs", "--num-threads"), "--threads"),
    **dict.fromkeys(("--link", "--bw", "--link-speed"), "--bandwidth"),
    **dict.fromkeys(("--crosscheck", "--check"), "--cross-check"),
    **dict.fromkeys(("--warmstart", "--initial", "--start"), "--warm-start"),
}

# Our commands by other verbs for the same.
OTHER_COMMANDS = {
    **dict.fromkeys(("optimise", "optimize", "plan", "run-solver", "search"), "solve"),
    **dict.fromkeys(("check", "validate", "judge"), "verify"),
    **dict.fromkeys(("plot", "draw", "view", "print"), "show"),
    **dict.fromkeys(("benchmark", "bench"), "compare"),
    **dict.fromkeys(("config", "autotune"), "configure"),
    **dict.fromkeys(("list", "ls", "examples"), "instances"),
}

# Where a user reports an internal error.
REPORT_TO = "the project's issue tracker"


class _Unhurried:
    """Has typer check what is given and nothing else: to check a number it loads pydantic, which takes longer than all
    the rest of a short command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if "process_value" not in vars(parameter):
                _check_if_given(parameter)
        return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]


class PlanCommand(_Unhurried, TyperCommand):
    """A command of `plan`, which also takes options as they were once written."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        narrow = getattr(self.callback, "narrow", {})
        return super().parse_args(ctx, list(modern(args, narrow)) if narrow else args)


class PlanGroup(_Unhurried, TyperGroup):
    """Turns what a command raises into one sentence and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, names = args[0], self.commands if ctx.parent is not None else {*COMMANDS, *GROUPS}
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            guess = (
                f" (did you mean {OTHER_COMMANDS[name]!r}?)"
                if name in OTHER_COMMANDS
                else did_you_mean(name, names)
            )
            raise UsageError(f"There is no command {show(name)}{guess}; `{ctx.command_path} --help` lists all.")
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        try:
            return super().make_context(*arguments, **named)
        except Exception as error:
            _refuse_usage(error, [])
            raise

    def invoke(self, ctx: Any) -> Any:
        words = [*ctx._protected_args, *ctx.args]
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except PipeplanError as error:
            say_error(error)
            raise typer.Exit(BAD_INPUT) from None
        except BrokenPipeError:
            _forget_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt:
            say_error("interrupted before there was any result.")
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            _say_os_error(error)
            raise typer.Exit(BAD_INPUT) from None
        except (MemoryError, RecursionError) as error:
            raise typer.Exit(_say_internal(error)) from None
        except Exception as error:
            _refuse_usage(error, words)
            if type(error).__module__.startswith(("typer", "click")):
                raise  # exits
            raise typer.Exit(_say_internal(error)) from None


def _check_if_given(parameter: Any) -> None:
    """Leave a default, or a text where a text is wanted, as it is, and read numbers here.

    Versions of typer refuse different numbers, each in its own words.
    """
    check = parameter.process_value
    several = parameter.multiple or parameter.nargs != 1
    wanted = _type_of(parameter)

    def process(ctx: Any, value: Any) -> Any:
        source = ctx.get_parameter_source(parameter.name)
        is_default = source is not None and source.name == "DEFAULT" and not parameter.required
        if not is_default and value and wanted in (int, float):
            texts = value if several else [value]
            numbers = [_number(parameter, text, wanted) for text in texts]
            if several:
                return check(ctx, numbers)
            value = numbers[0]
        elif not (wanted is str and not several if isinstance(value, str) else is_default):
            return check(ctx, value)
        value = () if several and value is None else value
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    parameter.process_value = process


_OF_ANNOTATIONS = {str: str, int: int, float: float, list[int]: int}
_OF_CLICK = {"StringParamType": str, "IntParamType": int, "IntRange": int, "FloatParamType": float}


def _type_of(parameter: Any) -> type | None:
    """What a parameter takes; None: what only typer can tell. Its older versions have types of click instead."""
    described = getattr(parameter, "type_descriptor", None)
    if described is None:
        return _OF_CLICK.get(type(parameter.type).__name__)
    return _OF_ANNOTATIONS.get(described.annotation) if described.parameter_info.parser is None else None


def _number(parameter: Any, text: str, wanted: Callable[[str], float]) -> float:
    """The number that was typed for an option, in its range."""
    flag = parameter.opts[0]
    typed = number(flag, text, wanted)
    limits = parameter.type if getattr(parameter, "type", None) is not None else parameter
    least, most = getattr(limits, "min", None), getattr(limits, "max", None)
    if least is not None and typed < least:
        raise UsageError(f"{flag} is {clean(typed)}; give a number of at least {least}.")
    if most is not None and typed > most:
        raise UsageError(f"{flag} is {clean(typed)}; give a number of at most {most}.")
    return typed


def _refuse_usage(error: Any, words: Sequence[str]) -> None:
    """Say what is wrong with the words of a command, and end; errors of other kinds pass.

    Typer keeps its own copy of click, and that one private: its errors are told by their names and fields.
    """
    if hasattr(error, "format_message"):
        say_error(_in_one_sentence(error, words))
        raise typer.Exit(BAD_INPUT) from None


def _in_one_sentence(error: Any, words: Sequence[str]) -> str:
    if type(error).__name__ == "NoSuchOption":
        return _no_such_option(error)
    text = str(error.format_message()).rstrip(".")
    extra = re.fullmatch(r"Got unexpected extra argument\S* \((.*)\)", text)
    if extra:
        return _one_word_too_many(extra[1].split(), words)
    help_page = f"`{error.ctx.command_path if error.ctx else 'plan'} --help` explains it"
    return f"{text}." if ";" in text or "(" in text else f"{text}; {help_page}."


def _one_word_too_many(extra: Sequence[str], words: Sequence[str]) -> str:
    """A word that belongs to none of the arguments: a unit that was written apart, say, or an option without --."""
    word, before = extra[0], words[: words.index(extra[0])] if extra[0] in words else []
    if before and _NUMBER.fullmatch(before[-1]) and _UNIT.fullmatch(word):
        return f"The unit {show(word)} is apart from its number; write {before[-1]}{word} in one word."
    name, equals, value = word.partition("=")
    if equals:
        return f"There is no argument {show(word)}; write --{name.strip('-')} {value}."
    return f"There is one argument too many, {show(word)}; leave it out, or write two words in quotes."


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?")
_UNIT = re.compile(r"[A-Za-zµ]{1,5}(/[A-Za-z]+)?|%")


def _no_such_option(error: Any) -> str:
    flags = [
        flag for parameter in error.ctx.command.params for flag in (*parameter.opts, *parameter.secondary_opts)
    ]
    flags = [flag for flag in flags if flag.startswith("--")]
    narrow = getattr(error.ctx.command.callback, "narrow", {})
    name, command = error.option_name, error.ctx.command_path
    ours = f"{name}s" if f"{name}s" in flags else OTHER_WORDS.get(name)
    page = "--help-all" if "--help-all" in flags else "--help"
    known = [*flags, *(f"--{key}" for key in narrow)]
    guess = f" (did you mean {ours!r}?)" if ours in flags else did_you_mean(name, known)
    return f"There is no option {show(name)}{guess}; `{command} {page}` lists all options."


def _say_os_error(error: OSError) -> None:
    if os.environ.get("PIPEPLAN_DEBUG") == "1":
        traceback.print_exc()
    place = f"{clean(error.filename)}: " if error.filename is not None else ""
    say_error(f"{place}{error.strerror or error}; check the path and its permissions.")


def _say_internal(error: BaseException) -> int:
    if os.environ.get("PIPEPLAN_DEBUG") == "1":
        traceback.print_exc()
    say_error(
        f"internal error ({type(error).__name__}: {error}); please report it with the command line to {REPORT_TO}; "
        "PIPEPLAN_DEBUG=1 shows where it happened."
    )
    return INTERNAL


def _tell_what_was_caught() -> None:
    """Print where a planner failed: that costs only this planner, and a result has one sentence on it."""
    import logging

    logger = logging.getLogger("pipeplan")
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.DEBUG)


def _say_compiling() -> None:
    say_note("compiling, once per machine (seconds outside all time limits); `plan warm-up` does it in advance")


def _forget_stdout() -> None:
    """Drop what is still buffered for a reader that has gone, so that Python says nothing of it at exit."""
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, sys.stdout.fileno())
        os.close(sink)
    except (OSError, ValueError, AttributeError):
        pass


def build(loaded: Collection[str]) -> typer.Typer:
    """The command line with the commands that are loaded, or, where none is, with all of them for the help page."""
    app = typer.Typer(
        name="plan",
        cls=PlanGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Exact planning of pipeline-parallel DNN training and inference.",
        epilog="Exit codes: 0 a verified plan; 1 no plan; 2 bad input or usage; 3 the referee, which recomputes "
        "every plan, rejected a plan or contradicts the method; 130 interrupted with nothing to show.",
    )
    app.callback()(_root)
    chosen = [name for name in (*COMMANDS, *GROUPS) if name in loaded] or [*COMMANDS, *GROUPS]
    _add(app, {name: COMMANDS[name] for name in chosen if name in COMMANDS}, loaded)
    for group in [name for name in chosen if name in GROUPS]:
        words, commands = GROUPS[group]
        inner = typer.Typer(name=group, cls=PlanGroup, no_args_is_help=True, help=words)
        inner.callback()(_group)
        _add(inner, commands, commands if group in loaded else ())
        app.add_typer(inner)
    return app


def _add(app: typer.Typer, commands: Mapping[str, str], loaded: Collection[str]) -> None:
    for name, place in commands.items():
        module, _, function = place.partition(":")
        command = (_loaded if name in loaded else _listed)(module, function)
        app.command(name, cls=PlanCommand, help=_paragraphs(command.__doc__ or ""))(command)


def _group() -> None:
    """Typer drops the command's name when a group has only one command; an empty callback keeps it."""


def _paragraphs(text: str) -> str:
    """A docstring without its line breaks, which a help page would keep."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _loaded(module: str, function: str) -> Callable[..., None]:
    command: Callable[..., None] = getattr(importlib.import_module(f".{module}", __package__), function)
    return command


def _listed(module: str, function: str) -> Callable[..., None]:
    """A command for the help page alone: its docstring is read from its source, and its module is not imported."""
    source = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    definition = next(node for node in source.body if isinstance(node, ast.FunctionDef) and node.name == function)

    def command() -> None:
        raise AssertionError("this command was to be listed, not run")

    command.__doc__ = ast.get_docstring(definition)
    return command


def __getattr__(name: str) -> Any:
    """`app` is the whole command line, with all that its commands import."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return build([*COMMANDS, *GROUPS])


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        sys.stdout.write(f"pipeplan {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Exact planning of pipeline-parallel DNN training and inference."""


def _completed() -> list[str]:
    """The finished words of the line that the shell wants completed, from the variables of typer's scripts."""
    if "_PLAN_COMPLETE" not in os.environ:
        return []
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return line.split()[1:] if line.endswith((" ", "\n")) else line.split()[1:-1]


def main(argv: list[str] | None = None) -> int:
    """Run the command line, and return its exit code. Text that the terminal cannot show is escaped, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("PIPEPLAN_DEBUG") == "1":
        _tell_what_was_caught()
    when_compiling(_say_compiling)
    before_writing(hear_no_more)
    words = sys.argv[1:] if argv is None else argv
    say_in_json_lines("--progress=json" in words or ("--progress", "json") in pairwise(words))
    first_word = next((word for word in _completed() or words if not word.startswith("-")), "")
    try:
        build({first_word} & {*COMMANDS, *GROUPS})(args=words, prog_name="plan")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    return OK
