"""Puts options that several commands share, or that only tables know, into a command's signature, as typer reads it.

What one method or one source of problems alone takes is given as `--option NAME=VALUE`. As options of their own, which
they once were, such options are understood with a note.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import stat
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.models import OptionInfo

from ..instances.base import quantities
from ..instances.base.errors import InputError, UsageError, did_you_mean, one_of, show
from ..instances.base.json_file import STDIN
from ..show.console import say_note, say_written

T = TypeVar("T")
Command = Callable[..., None]
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
CONTEXT = inspect.Parameter("of_command", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
"""Typer's own description of the run, which says at its end what was written."""
Table = Mapping[str, inspect.Parameter]


def with_options(
    command: Command,
    bundle: str,
    parameters: Iterable[inspect.Parameter],
    make: Callable[[dict[str, Any]], Any] = dict,
) -> Command:
    """The command with further options in the place of its argument `bundle`.

    The values that were given, by the names of the options, become that argument; `make` may turn them into another.
    """
    added = list(parameters)

    def run(**values: Any) -> None:
        given = {parameter.name: values.pop(parameter.name) for parameter in added}
        bundled = make({name: value for name, value in given.items() if value is not None})
        command(**{bundle: bundled}, **values)

    signature = inspect.signature(command, eval_str=True)
    kept: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kept += added if name == bundle else [parameter]
    return _dressed(run, command, kept)


def _dressed(run: Command, command: Command, parameters: list[inspect.Parameter]) -> Command:
    """A wrapper of a command with its name and its words, and with the parameters that typer is to read."""
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def shared(
    bundle: str, table: Iterable[inspect.Parameter], make: Callable[[dict[str, Any]], Any] = dict
) -> Callable[..., Callable[[Command], Command]]:
    """A function that makes decorators: they give a command the options with these names, or the whole table."""
    by_name = {parameter.name: parameter for parameter in table}

    def choose(*names: str) -> Callable[[Command], Command]:
        return lambda command: with_options(
            command, bundle, [by_name[key] for key in " ".join(names).split() or by_name], make
        )

    return choose


def option(name: str, kind: Any, *flags: str, default: Any = None, help: str, **facts: Any) -> inspect.Parameter:
    """An option as a keyword of a command; `flags` are its names on the command line where they are others."""
    if facts.pop("by_place", False):
        info = typer.Argument(help=plain(help), **facts)
    else:
        info = typer.Option(
            *(flags or (flag_of(name),)), show_default=default is not None, help=plain(help), **facts
        )
    annotation: Any = Annotated[kind | None, info] if default is None else Annotated[kind, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# ---- what an option takes -------------------------------------------------------------------------------------


def _parser(read: Callable[[str], T]) -> Callable[[str], T]:
    """The reader as a parser of typer, for which a text that cannot be read is a mistake in the option."""

    @wraps(read)
    def parser(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parser


def _whole_size(text: str) -> int:
    from ..instances.base.cluster import MEMORY

    amount = quantities.size(text)
    if 0 < amount < MEMORY.least:
        raise ValueError(
            f"{text!r} means {amount:g} bytes, too little for any process; write {amount:g}GB if you mean that."
        )
    return math.ceil(amount)


duration = _parser(quantities.duration)
size = _parser(quantities.size)
whole_size = _parser(_whole_size)
rate = _parser(quantities.rate)
size_or_none = _parser(quantities.size_or_none)
levels = _parser(quantities.levels)
share = _parser(quantities.share)
tokens = _parser(quantities.tokens)
short_time = _parser(quantities.short_time)


def list_of(what: str) -> Callable[[str], tuple[int, ...]]:
    """A reader of whole numbers that are joined by commas."""

    def parser(text: str) -> tuple[int, ...]:
        numbers = quantities.whole_numbers(text)
        if numbers is None:
            raise typer.BadParameter(f"{text!r} is not a list of {what} such as 1,2,4.")
        return numbers

    return parser


def number(flag: str, text: str, wanted: Callable[[str], float]) -> float:
    """The number that was typed for an option; `wanted` is int or float."""
    try:
        return wanted(text)
    except ValueError:
        kind = "a whole number" if wanted is int else "a number"
        remedy = f"; give {kind}, as in {4 if wanted is int else 0.5}"
        raise UsageError(f"{flag} is {show(text)}, not {kind}{remedy}.") from None


def in_bytes(amount: float) -> str:
    """The amount in the unit in which its text is shortest."""
    units = (
        (unit, factor) for unit, factor in quantities.BYTES.items() if unit and (amount >= factor or unit == "B")
    )
    return min((f"{amount / factor:g} {unit}" for unit, factor in units), key=len)


# ---- files that are read and written ------------------------------------------------------------------------


def readable(context: typer.Context, path: str | None) -> str | None:
    """`-` is standard input, which can be read only once."""
    if path != "-" or context.resilient_parsing:
        return path
    if STDIN in context.params.values():
        raise UsageError("Two files cannot both be read from standard input; give one of them by name.")
    return STDIN


def writable(context: typer.Context, parameter: typer.CallbackParam, path: str | None) -> str | None:
    """Refuse a path that cannot be written before the work is done, not after it; at the end say what was written."""
    if path is not None and not context.resilient_parsing:
        name = parameter.opts[0] if parameter.opts[0].startswith("-") else str(parameter.metavar)
        _check_output(name, path, Path(path).parent)
        watch(context, path)
    return path


def writable_or_stdout(context: typer.Context, parameter: typer.CallbackParam, path: str | None) -> str | None:
    """A path that can be written, or `-` for standard output."""
    return path if path == "-" else writable(context, parameter, path)


def _check_output(option: str, path: str, folder: Path) -> None:
    if path == "-":
        raise InputError(option, "is '-'", "name a file")
    if Path(path).is_dir():
        raise InputError(option, f"{path} is a folder", "name a file")
    if not folder.is_dir():
        raise InputError(option, f"{path} lies in a folder that does not exist", f"create {folder} first")
    if not os.access(folder, os.W_OK):
        raise InputError(option, f"{path} lies in a folder that cannot be written", "choose another folder")


def watch(context: typer.Context, path: str) -> None:
    """Say at the end of the command that the file was written, if it was."""
    before = _state(path)

    def tell() -> None:
        if _state(path) not in (None, before):
            say_written(path)

    context.call_on_close(tell)


def _state(path: str) -> tuple[int, ...] | None:
    """What changes whenever a file is written; None where there is no file, or a terminal or a pipe in its place."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def drawable(context: typer.Context, parameter: typer.CallbackParam, path: str | None) -> str | None:
    """Check that a picture can be written to the path, and that its ending names a format of pictures."""
    if writable(context, parameter, path) is not None:
        from ..show.pictures import format_of

        format_of(str(path))
    return path


# ---- options in tables ----------------------------------------------------------------------------------------


# What an option takes, by the word that declares it: its type, and what typer is told of it besides.
_TAKEN: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "flag": (bool, {}),
    "int": (int, {}),
    "ints": (list[int], {}),
    "float": (float, {}),
    "tokens": (int, {"parser": tokens}),
    "text": (str, {}),
    "choice": (str, {}),
    "texts": (list[str], {}),
    "size": (float, {"parser": size}),
    "size-or-none": (float, {"parser": size_or_none}),
    "whole-size": (int, {"parser": whole_size}),
    "rate": (float, {"parser": rate}),
    "share": (float, {"parser": share}),
    "duration": (float, {"parser": duration}),
    "short-time": (float, {"parser": short_time}),
    "levels": (Any, {"parser": levels}),
    "any": (Any, {}),
    "folder": (Path, {}),
    "argument": (str, {"by_place": True}),
    "arguments": (list[str], {"by_place": True}),
    "input": (str, {"by_place": True, "callback": readable}),
    "output": (str, {"metavar": "FILE", "callback": writable}),
    "picture": (str, {"metavar": "FILE", "callback": drawable}),
}


def declared(
    table: str, panel: str | Callable[[str], str] | None = None, **more: Mapping[str, Any]
) -> tuple[inspect.Parameter, ...]:
    """The options of a table, each in a line: name, what it takes, its flags where they are others, a word for its
    value, `=` and its default, a colon, and its help, which may go on in indented lines.

    The word for the value of a choice lists what there is, unless `more` has `choices`.

    A line in brackets names the part of the help page for what follows; else that is `panel`, or `panel` tells it by
    name. `more` has further facts by the names of options.
    """
    options = []
    for line in re.split(r"\n(?=\S)", textwrap.dedent(table).strip()):
        if line.startswith("["):
            panel = line.strip("[]")
            continue
        head, help = " ".join(line.split()).split(": ", 1)
        name, taken, *rest = head.split()
        kind, told = _TAKEN[taken]
        flags = [word for word in rest if word.startswith("-")] or [flag_of(name)]
        default = next((word[1:] for word in rest if word.startswith("=")), None)
        facts = {**told, "rich_help_panel": panel(name) if callable(panel) else panel}
        metavars = [word for word in rest if not word.startswith(("-", "="))]
        facts |= {"metavar": metavars[0]} if metavars else {}
        facts |= more.get(name, {})
        if taken == "choice":
            facts["callback"] = among(flags[0], facts.pop("choices", metavars[0].split("|")))
        typed: Any = (
            TRUTHS[default] if default and kind is bool else int(default) if default and kind is int else default
        )
        options.append(option(name, kind, *flags, default=typed, help=help, **facts))
    return tuple(options)


def among(flag: str, choices: Collection[str]) -> Callable[[str | None], str | None]:
    """A check of typer that refuses what is not among the choices."""
    return lambda value: None if value is None else one_of(flag, value, choices)


def described(
    table: str, panel: str | Callable[[str], str] | None = None, **more: Mapping[str, Any]
) -> Callable[[Command], Command]:
    """Gives those arguments of a command the options of the table that have their names.

    What an option is called and does is said in the table, as in `declared`, and its default in the signature.
    """
    by_name = {one.name: one for one in declared(table, panel, **more)}

    def choose(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        assert by_name.keys() <= signature.parameters.keys(), by_name.keys() - signature.parameters.keys()
        own = [
            _with_default(by_name[name], parameter) if name in by_name else parameter
            for name, parameter in signature.parameters.items()
        ]
        return _dressed(command, command, own)

    return choose


def _with_default(declared: inspect.Parameter, parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter of a command with the option that a table declares for it."""
    kind, info = get_args(declared.annotation)
    info.show_default = parameter.default not in (None, parameter.empty)
    own = kind if parameter.default is None else get_args(kind)[0]  # tables leave defaults to signatures
    return parameter.replace(annotation=Annotated[own, info])


NARROW = "given as --option NAME=VALUE"
"""The panel of options that one method or one source of problems alone takes: help pages have none of its name."""


def plain(text: str) -> str:
    """A sentence for help pages, which take brackets for markup and leave them out."""
    return text.replace("[", r"\[")


def flags_of(table: Iterable[inspect.Parameter]) -> dict[str, str]:
    """How the command line writes each option of a table: in annotations typer takes the first word for a default."""
    return {one.name: get_args(one.annotation)[1].default for one in table}


def hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    """The option as one that is accepted but not listed in help."""
    kind, info = get_args(parameter.annotation)
    unlisted = copy(info)
    unlisted.hidden = True
    return parameter.replace(annotation=Annotated[kind, unlisted])


def with_usual_help(*rare: str) -> Callable[[Command], Command]:
    """The command with a help page that leaves these options out; `--help-all` lists all that it takes."""

    def choose(command: Command) -> Command:
        def run(**values: Any) -> None:
            del values[_HELP_ALL.name]
            command(**values)

        vars(run).update(vars(command))
        listed = [
            hidden(one) if one.name in rare and isinstance(get_args(one.annotation)[1], OptionInfo) else one
            for one in inspect.signature(command).parameters.values()
        ]
        return _dressed(run, command, [*listed, _HELP_ALL])

    return choose


def _show_all(context: typer.Context, parameter: typer.CallbackParam, wanted: bool) -> None:
    if wanted:
        for other in context.command.params:
            other.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


_HELP_ALL = option("help_all", bool, "--help-all", help="List all options.", is_eager=True, callback=_show_all)


def flag_of(name: str) -> str:
    """An argument's name as the command line writes it."""
    return "--" + name.replace("_", "-")


# ---- --option NAME=VALUE -------------------------------------------------------------------------------------


def with_narrow_options(command: Command) -> Command:
    """The command with `--option` for its narrow options; what is none of them goes to its argument `option`, if any.

    Plug-ins declare options that are known only after the command line was read.
    """
    signature = inspect.signature(command)
    narrow = {
        flag_of(name)[2:]: parameter
        for name, parameter in signature.parameters.items()
        if getattr(get_args(parameter.annotation)[1], "rich_help_panel", None) == NARROW
    }
    of_plugins = "option" in signature.parameters

    def read(context: typer.Context, texts: Sequence[str]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            key = name.replace("_", "-")
            if key in narrow:
                parameter = narrow[key]
                given[parameter.name] = _value(context, parameter, key, value if equals else None)
            elif of_plugins and equals:
                given.setdefault("option", []).append(text)
            else:
                raise UsageError(_no_such(name, narrow, context))
        return given

    def run(**values: Any) -> None:
        given = read(values.pop(CONTEXT.name), values.pop("option") or ())
        rest = {"option": given.pop("option", None)} if of_plugins else {}
        absent = {parameter.name: parameter.default for parameter in narrow.values()}
        command(**absent | given, **rest, **values)

    ours = option(
        "option",
        list[str],
        metavar="NAME=VALUE",
        help="An option of one method or of one input format; see `plan planners NAME`. Repeatable.",
    )
    dropped = {parameter.name for parameter in narrow.values()} | {"option"}
    kept = [parameter for name, parameter in signature.parameters.items() if name not in dropped]
    run.narrow = narrow  # type: ignore[attr-defined]
    return _dressed(run, command, [*kept, ours, CONTEXT])


def _value(context: typer.Context, parameter: inspect.Parameter, key: str, text: str | None) -> Any:
    kind, info = get_args(parameter.annotation)
    wanted = next((own for own in get_args(kind) if own is not type(None)), kind)
    flag = f"--option {key}"
    if wanted is bool:
        if text is not None and text.lower() not in TRUTHS:
            raise UsageError(f"{flag} is {show(text)}; write {flag} alone, or {flag}=false.")
        return True if text is None else TRUTHS[text.lower()]
    if not text:
        raise UsageError(f"{flag} lacks its value; write it as {flag}={info.metavar or 'VALUE'}.")
    try:
        value = info.parser(text) if info.parser is not None else text
    except typer.BadParameter as error:
        raise UsageError(f"{flag}: {str(error).rstrip('.')}.") from None
    if info.parser is None and wanted in (int, float):
        value = number(flag, text, wanted)
    if info.callback is None:
        return value
    # As typer does: a callback of one argument takes the value alone.
    return info.callback(*(context, value)[-len(inspect.signature(info.callback).parameters) :])


def _no_such(name: str, narrow: Table, context: typer.Context) -> str:
    if f"--{name}" in {flag for parameter in context.command.params for flag in parameter.opts}:
        return f"{show(name)} is a separate option; write --{name}."
    known = did_you_mean(name, narrow) or f"; --option takes {', '.join(sorted(narrow))}"
    return f"There is no option {show(name)}{known}."


def modern(words: Sequence[str], narrow: Table) -> Iterator[str]:
    """The words of a command line with `--option NAME=VALUE` where they have an option as it was once written."""
    left = iter(words)
    for word in left:
        name, equals, value = word.removeprefix("--").partition("=")
        denied = name.removeprefix("no-")
        if word == "--":
            yield word
            yield from left
            return
        if not word.startswith("--"):
            text = None
        elif name in narrow:
            alone = equals or _is_flag(narrow[name])
            text = name + (equals + value if alone else f"={next(left, '')}")
        else:
            text = f"{denied}=false" if denied in narrow and _is_flag(narrow[denied]) else None
        if text is None:
            yield word
        else:
            say_note(f"--{name} is now written --option {text}.")
            yield from ("--option", text)


def _is_flag(parameter: inspect.Parameter) -> bool:
    return bool in get_args(get_args(parameter.annotation)[0])
