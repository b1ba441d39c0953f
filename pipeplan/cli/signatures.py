"""Puts options that several commands share, or that only tables know, into a command's signature, as typer reads it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from copy import copy
from typing import Annotated, Any, get_args

import typer
from typer.models import OptionInfo

Command = Callable[..., None]


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
