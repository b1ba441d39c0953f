"""Reference pages from the code itself, so that they cannot say anything else than it does."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import lesson_pages

import pipeplan
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.planners.registry import PLANNERS
from pipeplan.show.memory_page import memory_page
from pipeplan.show.report import explore_page


def write_all(folder: Path) -> None:
    """Every page."""
    pages = {f"{page.__name__}.md": page() for page in (cli, api, methods, schemas, suites)}
    explorers = {"explorer.html": explore_page(), "memory.html": memory_page()}
    lesson_pages.write_pages(folder, {**pages, **explorers})


# ---- the command line ----------------------------------------------------------------------------------


def cli() -> str:
    """Every command with its arguments and options."""
    import typer

    from pipeplan.cli.app import app

    root: Any = typer.main.get_command(app)
    lines = ["# Command line", "", plain(root.help or ""), "", plain(root.epilog or ""), ""]
    for name, command in _commands(root):
        lines += [f"## plan {name}", "", plain(command.help or ""), ""]
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            lines += _parameter(parameter)
    return "\n".join(lines) + "\n"


def _commands(group: Any) -> Iterator[tuple[str, Any]]:
    """All commands with their words; of a group of commands those in it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {word}", inner) for word, inner in _commands(command))
        else:
            yield name, command


def _parameter(parameter: Any) -> list[str]:
    names = ", ".join(f"`{name}`" for name in parameter.opts) if parameter.param_type_name == "option" else ""
    metavar = parameter.metavar or (parameter.human_readable_name if not names else "")
    head = " ".join(filter(None, [names, f"`{metavar}`" if metavar else ""]))
    return [head, f": {plain(getattr(parameter, 'help', None) or 'Not described.')}", ""]


# ---- what there is -------------------------------------------------------------------------------------


def abilities() -> str:
    """What the registries hold, in short; it is kept in `docs/abilities.md`, for readers without the site.

    It stands there between two marks, below what is written by hand.
    """
    import typer

    from pipeplan.cli.app import app
    from pipeplan.instances.physics.efficiencies import ATTENTION_KERNELS
    from pipeplan.instances.registry import KINDS
    from pipeplan.instances.training.frameworks import FRAMEWORKS
    from pipeplan.models.export.contract import TARGETS
    from pipeplan.planners.registry import methods_of

    lines = ["## Commands", "", "| command | what it does |", "| --- | --- |"]
    root: Any = typer.main.get_command(app)
    lines += [f"| `plan {name}` | {cell(_first(command.help))} |" for name, command in _commands(root)]
    lines += ["", "## Kinds of problems and their methods", ""]
    lines += [
        "An *exact* method can prove that no plan in its scope is better. The plan of any other method is proven only "
        "if its value equals a known bound.",
        "",
    ]
    for kind in KINDS:
        name = kind.replace("_", "-")
        lines += [f"### {name}", "", "| method | what it is | exact |", "| --- | --- | --- |"]
        for entry in methods_of(name):
            lines.append(f"| `{entry.name}` | {cell(entry.title)} | {'yes' if entry.exact else 'no'} |")
        lines.append("")
    names = ", ".join(f"`{name}`" for name in TARGETS)
    lines += ["## Frameworks that can run a plan", "", f"`plan export --to` accepts {names}."]
    lines += [
        "",
        "## Training frameworks that can be planned for",
        "",
        "| value of `plan configure --framework` | what it is |",
    ]
    lines += ["| --- | --- |", *(f"| `{own.name}` | {cell(own.words)} |" for own in FRAMEWORKS.values())]
    lines += [
        "",
        "## Attention kernels",
        "",
        "| value of `plan configure --attention-kernel` | what it is |",
        "| --- | --- |",
    ]
    lines += [f"| `{name}` | {cell(own.words)} |" for name, own in ATTENTION_KERNELS.items()]
    return "\n".join(lines) + "\n"


# ---- the public names --------------------------------------------------------------------------------------

API = """\
# Python

These are all the public names of the package `pipeplan`. They have type annotations, and each has a docstring.

Wherever a function takes a **problem**, you can pass the problem itself, the path of its file, or the name of a
packaged instance: `pipeplan.solve("tiny-chain")`. If there is a file of that name, the file is used. To change the
cluster, load the problem with `pipeplan.load` or `pipeplan.load_packaged` and call its `replace`. Plans and results
are passed as objects: `pipeplan.load_plan` and `pipeplan.load_result` read them from files. Any other argument raises
an `InputError` or a `UsageError` with one sentence, which names the argument, what is expected and how to get it.
"""


def api() -> str:
    """Every public name, as the package lists them: functions first, then types."""
    public = {name: getattr(pipeplan, name) for name in pipeplan.__all__ if not name.startswith("_")}
    functions = {name: value for name, value in public.items() if inspect.isfunction(value)}
    types = {name: value for name, value in public.items() if name not in functions}
    lines = [API, "## Functions", ""]
    for name, function in functions.items():
        lines += [f"### {name}", "", *_signature(name, function), *_sections(inspect.getdoc(function) or "")]
    lines += ["## Types", ""]
    for name, value in types.items():
        lines += [
            f"### {name}",
            "",
            *_sections(inspect.getdoc(value) or ""),
            *_fields(value),
            *_methods(name, value),
        ]
    return "\n".join(lines) + "\n"


def _signature(name: str, function: Callable[..., Any]) -> list[str]:
    signature = inspect.signature(function)
    arguments, named = [], False
    for argument in signature.parameters.values():
        if argument.kind == argument.KEYWORD_ONLY and not named:
            arguments, named = [*arguments, "*"], True
        default = "" if argument.default is argument.empty else f" = {argument.default!r}"
        typed = "" if argument.annotation is argument.empty else f": {argument.annotation}"
        stars = {argument.VAR_KEYWORD: "**", argument.VAR_POSITIONAL: "*"}.get(argument.kind, "")
        arguments.append(stars + argument.name + typed + default)
    inside = "".join(f"    {argument},\n" for argument in arguments if argument not in ("self", "cls"))
    head = f"{name}(\n{inside})" if inside else f"{name}()"
    return ["```python", f"{head} -> {signature.return_annotation}", "```", ""]


def _sections(text: str) -> list[str]:
    """A docstring, with what stands below its underlined titles as lists of definitions."""
    head, *rest = re.split(r"^(\w+)\n-{3,}\n", text, flags=re.MULTILINE)
    lines = [head.strip(), ""]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        lines += [f"**{title}**", ""]
        for term, words in re.findall(r"^(\S.*)\n?((?:    .*\n?)*)", body, re.MULTILINE):
            lines += _definition(term, words) if words else [term, ""]
    return lines


def _definition(term: str, words: str) -> list[str]:
    name, _, kind = term.partition(" : ")
    return [f"`{name}`" + (f" ({plain(kind)})" if kind else ""), f": {' '.join(words.split())}", ""]


def _fields(value: type) -> list[str]:
    """The fields of a data class, or the members of an enumeration, with what stands below them."""
    (tree,) = ast.parse(inspect.getsource(value)).body
    assert isinstance(tree, ast.ClassDef)
    lines: list[str] = []
    for node, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        told = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and not ast.unparse(node).startswith("_"):
            lines += [f"`{ast.unparse(node)}`", *([f": {' '.join(str(told).split())}"] if told else []), ""]
    return lines


def _methods(name: str, value: type) -> list[str]:
    lines: list[str] = []
    for key, member in vars(value).items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and not key.startswith("_"):
            lines += [
                f"#### {name}.{key}",
                "",
                *_signature(key, function),
                *_sections(inspect.getdoc(function) or ""),
            ]
    return lines


# ---- formulations and planners -------------------------------------------------------------------------


def methods() -> str:
    """Every formulation and planner with its own options."""
    lines = ["# Formulations and planners", ""]
    for title, table in (("Formulations", FORMULATIONS), ("Planners", PLANNERS)):
        lines += [f"## {title}", ""]
        for entry in (entry for one in table.values() for entry in one.all_kinds):
            lines += [f"### {entry.name}", "", plain(entry.title) + ".", ""]
            lines += [f"- plans: {entry.problem_kind}", f"- exact: {'yes' if entry.exact else 'no'}"]
            if words := entry.paper_words:
                lines.append(f"- paper: {plain(words)}")
            lines.append("")
            for spec in entry.options:
                values = " or ".join(f"`{choice}`" for choice in spec.choices) if spec.choices else spec.type
                lines += [f"`--{spec.name.replace('_', '-')}` ({values})", f": {plain(spec.help)}", ""]
    return "\n".join(lines) + "\n"


# ---- file formats and suites ---------------------------------------------------------------------------


def schemas() -> str:
    """The JSON Schemas that the package ships."""
    lines = ["# Schemas", "", "JSON Schema of every file that pipeplan writes, as shipped in the package.", ""]
    folder = files("pipeplan.instances").joinpath("schemas")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".json"):
            text = json.dumps(json.loads(entry.read_text("utf-8")), indent=2)
            lines += [f"## {entry.name.removesuffix('.schema.json')}", "", "```json", text, "```", ""]
    return "\n".join(lines) + "\n"


def suites() -> str:
    """The packaged suites of `plan compare`."""
    lines = [
        "# Packaged suites",
        "",
        "`plan compare --suite NAME` runs them; `--quick` takes a part of a few minutes.",
        "",
    ]
    folder = files("pipeplan.studies.compare").joinpath("suites")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".toml"):
            lines += [
                f"## {entry.name.removesuffix('.toml')}",
                "",
                "```toml",
                entry.read_text("utf-8").rstrip(),
                "```",
                "",
            ]
    return "\n".join(lines) + "\n"


def _first(text: str | None) -> str:
    return (text or "").split("\n\n")[0].replace("\n", " ")


def plain(text: str) -> str:
    """Help texts as markdown text: no accidental markup."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_").replace("[", r"\[")


def cell(text: str) -> str:
    return plain(text).replace("|", r"\|")


BEGIN, END = "<!-- made by docs/generate.py -->\n\n", "\n<!-- end -->\n"


def with_abilities(page: str) -> str:
    """The page with that part anew."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + abilities() + END + rest.partition(END)[2]


if __name__ == "__main__":
    path = Path(__file__).parent / "abilities.md"
    path.write_text(with_abilities(path.read_text("utf-8")), encoding="utf-8")
