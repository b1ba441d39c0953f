"""Puts options that several commands share, or that only tables know, into a command's signature, as typer reads it.

What one method or one source of problems alone takes is given as `--option NAME=VALUE`. As options of their own, which
they once were, such options are understood with a note.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args

import typer
from typer.models import OptionInfo

from ..instances.base import quantities
from ..instances.base.errors import UsageError, did_you_mean, in_digits, show
from ..show.console import say_note

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


def option(
    name: str, kind: Any, flag: str | None = None, default: Any = None, *, help: str, **facts: Any
) -> inspect.Parameter:
    """An option as a keyword of a command; `flag` is its name on the command line where that is another one."""
    info = typer.Option(flag or flag_of(name), show_default=default is not None, help=plain(help), **facts)
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
            f"{text!r} means {amount:g} bytes, in which no process runs; write {amount:g}GB if that is meant."
        )
    return math.ceil(amount)


duration = _parser(quantities.duration)
size = _parser(quantities.size)
whole_size = _parser(_whole_size)
rate = _parser(quantities.rate)
size_or_none = _parser(quantities.size_or_none)
levels = _parser(quantities.levels)
share = _parser(quantities.share)
time_gap = _parser(quantities.time_gap)
short_time = _parser(quantities.short_time)


def number(flag: str, text: str, wanted: Callable[[str], float]) -> float:
    """The number that was typed for an option; `wanted` is int or float."""
    try:
        return wanted(text)
    except ValueError:
        kind = "a whole number" if wanted is int else "a number"
        remedy = in_digits(text) or f"; give {kind}, as in {4 if wanted is int else 0.5}"
        raise UsageError(f"{flag} is {show(text)}, not {kind}{remedy}.") from None


def in_bytes(amount: float) -> str:
    """The amount in the unit in which its text is shortest."""
    units = (
        (unit, factor) for unit, factor in quantities.BYTES.items() if unit and (amount >= factor or unit == "B")
    )
    return min((f"{amount / factor:g} {unit}" for unit, factor in units), key=len)


# What an option takes, by the word that declares it: its type, and what reads it where typer cannot.
_TAKEN: Mapping[str, tuple[Any, Callable[[str], Any] | None]] = {
    "flag": (bool, None),
    "int": (int, None),
    "ints": (list[int], None),
    "float": (float, None),
    "text": (str, None),
    "texts": (list[str], None),
    "size": (float, size),
    "size-or-none": (float, size_or_none),
    "whole-size": (int, whole_size),
    "rate": (float, rate),
    "share": (float, share),
    "duration": (float, duration),
    "short-time": (float, short_time),
    "time-gap": (Any, time_gap),
    "levels": (Any, levels),
    "any": (Any, None),
}


def declared(
    table: str, panel: str | Callable[[str], str] | None = None, **more: Mapping[str, Any]
) -> tuple[inspect.Parameter, ...]:
    """The options of a table, each in a line: name, what it takes, its flag where that is another name, a word for its
    value, `=` and its default, a colon, and its help, which may go on in indented lines.

    `panel` is the part of the help page, or tells it by name; `more` has further facts by the names of options.
    """
    options = []
    for line in re.split(r"\n(?=\S)", textwrap.dedent(table).strip()):
        head, help = " ".join(line.split()).split(": ", 1)
        name, taken, *rest = head.split()
        kind, parser = _TAKEN[taken]
        flag = next((word for word in rest if word.startswith("--")), None)
        default = next((word[1:] for word in rest if word.startswith("=")), None)
        metavar = next((word for word in rest if not word.startswith(("--", "="))), None)
        facts: dict[str, Any] = {"parser": parser, "metavar": metavar}
        facts["rich_help_panel"] = panel(name) if callable(panel) else panel
        typed: Any = (
            TRUTHS[default] if default and kind is bool else int(default) if default and kind is int else default
        )
        options.append(option(name, kind, flag, typed, help=help, **{**facts, **more.get(name, {})}))
    return tuple(options)


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
        help="An option of one method, or of one source of problems; see `plan planners NAME`. Repeatable.",
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
    return info.callback(context, value) if info.callback is not None else value


def _no_such(name: str, narrow: Table, context: typer.Context) -> str:
    if f"--{name}" in {flag for parameter in context.command.params for flag in parameter.opts}:
        return f"{show(name)} is an option of its own; write --{name}."
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
            say_note(f"--{name} is written --option {text} now.")
            yield from ("--option", text)


def _is_flag(parameter: inspect.Parameter) -> bool:
    return bool in get_args(get_args(parameter.annotation)[0])
