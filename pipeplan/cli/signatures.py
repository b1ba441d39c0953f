"""Puts options that several commands share, or that only tables know, into a command's signature, as typer reads it.

What one method or one source of problems alone takes is given as `--option NAME=VALUE`. As options of their own, which
they once were, such options are understood with a note.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from ..instances.base.errors import UsageError, did_you_mean, show
from ..show.console import say_note
from .quantities import number

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
    run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def shared(
    bundle: str, table: Iterable[inspect.Parameter], make: Callable[[dict[str, Any]], Any] = dict
) -> Callable[..., Callable[[Command], Command]]:
    """A function that makes decorators: they give a command the options with these names, or the whole table."""
    by_name = {parameter.name: parameter for parameter in table}

    def choose(*names: str) -> Callable[[Command], Command]:
        return lambda command: with_options(command, bundle, [by_name[key] for key in names or by_name], make)

    return choose


def option(
    name: str, kind: Any, flag: str | None = None, default: Any = None, *, help: str, **facts: Any
) -> inspect.Parameter:
    """An option as a keyword of a command; `flag` is its name on the command line where that is another one."""
    info = typer.Option(flag or flag_of(name), show_default=default is not None, help=plain(help), **facts)
    annotation: Any = Annotated[kind | None, info] if default is None else Annotated[kind, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


NARROW = "given as --option NAME=VALUE"
"""The panel of options that one method or one source of problems alone takes: help pages have none of its name."""


def plain(text: str) -> str:
    """A sentence for help pages, which take brackets for markup and leave them out."""
    return text.replace("[", r"\[")


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
        signature = inspect.signature(command)
        listed = [
            hidden(parameter) if parameter.name in rare and _is_option(parameter) else parameter
            for parameter in signature.parameters.values()
        ]
        signature = signature.replace(parameters=[*listed, _HELP_ALL])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: entry.annotation for name, entry in signature.parameters.items()}
        run.__doc__, run.__name__ = command.__doc__, command.__name__
        return run

    return choose


def _is_option(parameter: inspect.Parameter) -> bool:
    return isinstance(get_args(parameter.annotation)[1], OptionInfo)


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
                raise UsageError(_no_such(name, bool(equals), narrow, context))
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
    run.__signature__ = signature.replace(parameters=[*kept, ours, CONTEXT])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, ours, CONTEXT)}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.narrow = narrow  # type: ignore[attr-defined]
    return run


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


def _no_such(name: str, has_value: bool, narrow: Table, context: typer.Context) -> str:
    if f"--{name}" in {flag for parameter in context.command.params for flag in parameter.opts}:
        return f"{show(name)} is an option of its own; write --{name}{' VALUE' if has_value else ''}."
    if not has_value and name not in narrow and "=" not in name and not did_you_mean(name, narrow):
        return f"--option is {show(name)}; write it as NAME=VALUE."
    return f"There is no option {show(name)}{did_you_mean(name, narrow)}; `plan planners NAME` lists those of a method."


def modern(words: Sequence[str], narrow: Table) -> Iterator[str]:
    """The words of a command line with `--option NAME=VALUE` where they have an option as it was once written."""
    left = iter(words)
    for word in left:
        name, equals, value = word.removeprefix("--").partition("=")
        denied = name.removeprefix("no-")
        if word == "--":
            yield word
            yield from left
        elif not word.startswith("--") or not {name, denied} & narrow.keys():
            yield word
        else:
            key = name if name in narrow else denied
            text = f"{key}=false" if key != name else key if _is_flag(narrow[key]) else f"{key}={value}"
            if not _is_flag(narrow[key]) and not equals:
                text = f"{key}={next(left, '')}"
            say_note(f"--{name} is written --option {text} now.")
            yield from ("--option", text)


def _is_flag(parameter: inspect.Parameter) -> bool:
    return bool in get_args(get_args(parameter.annotation)[0])
