"""Which modules of the model a node stands for, in the words of the framework."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ...instances.base.errors import InputError, UsageError, did_you_mean, show
from ...instances.networks.profile.profile import Profile
from .contract import ToExport

# What follows the name of a module that is called several times, as `@1`.
_CALL = re.compile(r"@\d+$")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


class NodeNames:
    """The modules of the model that each node stands for; its id where no profile says which.

    A profile lists every module in which an operation of the node runs. A node that has the name of one, or of what
    several of them lie in, is that module; of the others only those count that hold no other node's modules: what a
    model computes in a container, between two parts of it, has no name.
    """

    def __init__(self, job: ToExport) -> None:
        self.job = job
        profile = job.profile
        self.by_node = None if profile is None or not any(n.modules for n in profile.nodes) else _by_node(profile)
        self.with_parameters = {
            around
            for n in ([] if profile is None else profile.nodes)
            for p in n.parameters
            for around in around_of(p)
        }
        _check_rename(
            job.options.rename, [name for stage in job.stages for n in stage.nodes for name in self._own(n)]
        )

    def holds_parameters(self, node: str, module: str) -> bool:
        """Does the module of this node hold parameters? True where the profile lists no parameters at all."""
        return not self.with_parameters or any(
            renamed(name, self.job.options.rename) == module and name in self.with_parameters
            for name in self._own(node)
        )

    def modules(self, node: str) -> tuple[str, ...]:
        """The modules that a node stands for, renamed; none for what a model computes between its modules."""
        return tuple(renamed(name, self.job.options.rename) for name in self._own(node))

    def paths(self, node: str) -> tuple[str, ...]:
        """The modules that a node stands for, by names like 'model.layers.7'; other names are refused.

        This is for frameworks that look modules up by their names.
        """
        for name in self.modules(node):
            if not _MODULE.fullmatch(name):
                raise self.job.refusal(
                    f"the node {show(node)} has the name {show(name)}, and modules have names like 'model.layers.7'",
                    "give the profile that `plan import torch` made, or --rename",
                )
        return self.modules(node)

    def _own(self, node: str) -> tuple[str, ...]:
        return (node,) if self.by_node is None else self.by_node[node]


def _by_node(profile: Profile) -> dict[str, tuple[str, ...]]:
    """The modules that each node stands for, by the rule that `NodeNames` states."""
    users: dict[str, set[str]] = {}
    for node in profile.nodes:
        for module in node.modules:
            for name in (module, *around_of(module)):
                users.setdefault(name, set()).add(node.id)
    modules_of = {}
    for node in profile.nodes:
        plain, listed = _CALL.sub("", node.id), set(node.modules)
        names = [plain] if plain in listed or any(plain in around_of(module) for module in listed) else []
        names += [module for module in node.modules if module not in names and users[module] == {node.id}]
        names += [module for module in node.modules if module not in names and _is_shared_leaf(module, users)]
        modules_of[node.id] = tuple(
            name for name in names if not any(around in names for around in around_of(name))
        )
    return modules_of


def _is_shared_leaf(module: str, users: Mapping[str, set[str]]) -> bool:
    """Is it a module that is called several times, so that several nodes run in it and none in a part of it?"""
    return len(users[module]) > 1 and not any(module in around_of(other) for other in users)


def renamed(name: str, rules: Mapping[str, str]) -> str:
    """The name after the rule for the innermost module that it is, or that it lies in; unchanged without a rule."""
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
    """Refuse a rule that fits no module of the plan: it is misspelt."""
    for old in rules:
        if not any(name == old or name.startswith(old + ".") for name in names):
            raise UsageError(
                f"--rename names the module {show(old)}{did_you_mean(old, names)}, which the plan does not have; "
                "name one that it has."
            )


def read_rules(texts: list[str]) -> dict[str, str]:
    """Read the values of --rename: each is `old=new`, or the name of a JSON file {"old": "new"}."""
    rules: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if equals and not (old and new):
            raise InputError("--rename", f"is {show(text)}", "give old=new, both modules")
        rules |= {old: new} if equals else _rules_in(text)
    return rules


def _rules_in(path: str) -> dict[str, str]:
    """The rules in a JSON file."""
    from ...instances.base.fields import as_object, shorten
    from ...instances.base.json_file import read_json

    try:
        rules = as_object("", read_json(path), '{"old": "new"}')
        for key, value in rules.items():
            if not isinstance(value, str) or not key or not value:
                raise InputError(shorten(key), f"is {show(value)}, not a module", 'give {"old": "new"}')
    except InputError as error:
        raise error if error.file else error.in_file(path) from None
    return dict(rules)
