"""Options that a framework's own source defines and `instances/training/flag_effects.toml` lacks.

    python benchmarks/flags.py CHECKOUT [FRAMEWORK]

CHECKOUT is a folder with the source of Megatron-LM (the default), torchtitan or DeepSpeed, which is parsed and not run.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeplan.instances.training import flag_options

ARGUMENTS = "megatron/training/arguments.py"
# Where each framework defines its options.
FILES = {"megatron": "megatron", "torchtitan": "torchtitan/config", "deepspeed": "deepspeed"}
# Sections of torchtitan's and DeepSpeed's files, by the classes of their entries.
SECTIONS = {
    "torchtitan": {"Training": "training", "Parallelism": "parallelism", "Compile": "compile", "Debug": "debug"},
    "deepspeed": {
        **{"DeepSpeedZero": "zero_optimization", "DeepSpeedZeroOffloadParam": "zero_optimization.offload_param"},
        **{"DeepSpeedZeroOffloadOptimizer": "zero_optimization.offload_optimizer", "DeepSpeedBF16": "bf16"},
        **{"ZenFlow": "zero_optimization.zenflow", "DeepSpeedFP16": "fp16", "TPTraining": "tensor_parallel"},
    },
}


def fields(name: str, classes: Mapping[str, ast.ClassDef]) -> Iterator[tuple[str, ast.AnnAssign, str]]:
    """The fields of a configuration class and of those that it builds on, with their values as they are written."""
    for base in classes[name].bases:
        yield from fields(base.id, classes) if isinstance(base, ast.Name) and base.id in classes else ()
    for line in classes[name].body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            yield line.target.id, line, ast.unparse(line.value) if line.value else ""


def generated(call: ast.Call, classes: Mapping[str, ast.ClassDef], lists: Mapping[str, ast.expr]) -> Iterator[str]:
    """Flags that Megatron makes of a class: what is true has `no-` and `disable-`, and some have their own names."""
    given = next((word.value for word in call.keywords if word.arg == "exclude"), ast.List([]))
    excluded = ast.literal_eval(lists[given.id] if isinstance(given, ast.Name) else given)
    for name, line, value in fields(ast.unparse(call.args[0]), classes):
        if name not in excluded and "init=False" not in value and "ClassVar" not in ast.unparse(line.annotation):
            own = [word.value for word in ast.walk(line) if isinstance(word, ast.Constant)]
            on = value == "True" or "default=True" in value
            usual = (f"--no-{name}", f"--disable-{name}") if on else (f"--{name}",)
            yield from [word for word in own if str(word)[:2] == "--"] or usual


def defined(root: Path, framework: str) -> Iterator[str]:
    """The names of all options."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted((root / FILES[framework]).rglob("*.py"))}
    nodes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    classes = {node.name: node for node in reversed(nodes)}
    for name, section in SECTIONS.get(framework, {}).items():
        yield from (f"{section}.{field}" for field, _, _ in fields(f"{name}Config", classes))
    for function in ast.iter_child_nodes(trees[root / ARGUMENTS]) if framework == "megatron" else ():
        inside = list(ast.walk(function))
        lists = {ast.unparse(node.targets[0]): node.value for node in inside if isinstance(node, ast.Assign)}
        for call in (node for node in inside if isinstance(node, ast.Call) and node.args):
            if ast.unparse(call.func).endswith(".add_argument"):
                yield from (str(word.value) for word in call.args if isinstance(word, ast.Constant))
            elif ast.unparse(call.func) == "ArgumentGroupFactory":
                yield from generated(call, classes, lists)


def main(checkout: str, framework: str = "megatron") -> None:
    table = tomllib.loads(Path(flag_options.__file__).with_name("flag_effects.toml").read_text("utf-8"))
    names = {name.removeprefix("--").replace("_", "-") for name in defined(Path(checkout), framework)}
    known = {*flag_options.effects_of(framework)[0], *table[framework]["modelled"]}
    lacking = sorted(name for name in names - known if not flag_options.is_harmless(framework, name))
    print(f"{len(names)} options of {framework}, of which the table lacks {len(lacking)}", *lacking, sep="\n  ")


if __name__ == "__main__":
    main(*sys.argv[1:])
