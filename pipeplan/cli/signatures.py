"""Options that are known only from tables: added to a command's signature, from which typer makes its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer


def with_options(
    command: Callable[..., None],
    bundle: str,
    parameters: Iterable[inspect.Parameter],
    make: Callable[[dict[str, Any]], Any] = dict,
) -> Callable[..., None]:
    """The command with further options; those that were given arrive together as its argument `bundle`.

    `make` turns their values by name into what arrives.
    """
    added = list(parameters)

    def run(**values: Any) -> None:
        given = {parameter.name: values.pop(parameter.name) for parameter in added}
        bundled = make({name: value for name, value in given.items() if value is not None})
        command(**{bundle: bundled}, **values)

    signature = inspect.signature(command, eval_str=True)
    kept = [parameter for name, parameter in signature.parameters.items() if name != bundle] + added
    run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def option(name: str, kind: type, flag: str, **facts: Any) -> inspect.Parameter:
    """A keyword that is None unless it is given on the command line."""
    info = typer.Option(flag, show_default=False, **facts)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )
