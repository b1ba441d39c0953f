"""Which modules of the model a node stands for, in the words of the framework."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...instances.errors import InputError, UsageError, did_you_mean, show
from .contract import ToExport

_MODULE = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


class NodeNames:
    """The profile's names of modules; where it has none, or there is no profile, those of the nodes themselves."""

    def __init__(self, job: ToExport) -> None:
        self.job = job
        profile = job.profile
        named = profile is not None and any(node.modules for node in profile.nodes)
        self.by_node: dict[str, tuple[str, ...]] | None = (
            {node.id: node.modules for node in profile.nodes} if profile is not None and named else None
        )
        _check_rename(
            job.options.rename, [name for stage in job.stages for n in stage.nodes for name in self._own(n)]
        )

    def modules(self, node: str) -> tuple[str, ...]:
        """Empty for what a model computes between its modules."""
        return tuple(renamed(name, self.job.options.rename) for name in self._own(node))

    def paths(self, node: str) -> tuple[str, ...]:
        """The same, for targets that look modules up by these names."""
        for name in self.modules(node):
            if not _MODULE.fullmatch(name):
                raise self.job.refusal(
                    f"the node {show(node)} has the name {show(name)}, and modules have names like 'model.layers.7'",
                    "give the profile that `plan import torch` made, or --rename",
                )
        return self.modules(node)

    def _own(self, node: str) -> tuple[str, ...]:
        return (node,) if self.by_node is None else self.by_node[node]


def renamed(name: str, rules: Mapping[str, str]) -> str:
    """By the rule of the longest module that the name is, or lies in."""
    fitting = [old for old in rules if name == old or name.startswith(old + ".")]
    if not fitting:
        return name
    old = max(fitting, key=len)
    return rules[old] + name[len(old) :]


def around_of(name: str) -> Iterator[str]:
    """The modules that a module lies in, the innermost first."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _check_rename(rules: Mapping[str, str], names: list[str]) -> None:
    """A rule that says nothing about the model is misspelt."""
    for old in rules:
        if not any(name == old or name.startswith(old + ".") for name in names):
            raise UsageError(
                f"--rename names the module {show(old)}{did_you_mean(old, names)}, which the plan has not; "
                "name one that it has."
            )


def read_rules(texts: list[str]) -> dict[str, str]:
    """`old=new`, or the name of a JSON file {"old": "new"}."""
    rules: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if equals and not (old and new):
            raise InputError("--rename", f"is {show(text)}", "give old=new, both modules")
        rules |= {old: new} if equals else _rules_in(text)
    return rules


def _rules_in(path: str) -> dict[str, str]:
    from ...instances.fields import as_object, shorten
    from ...instances.json_file import read_json

    try:
        found = as_object("", read_json(path), '{"old": "new"}')
        for key, value in found.items():
            if not isinstance(value, str) or not key or not value:
                raise InputError(shorten(key), f"is {show(value)}, not a module", 'give {"old": "new"}')
    except InputError as error:
        raise error if error.file else error.in_file(path) from None
    return dict(found)
