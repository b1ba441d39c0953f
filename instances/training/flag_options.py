"""Options of a command line: what each says, and what those change that are not modelled here.

To make an option known that decides nothing here, add it to `flag_effects.toml`. One that decides something is asked
for in a reader, by the framework's name or by our key for it.
"""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from ..base.errors import InputError, nearest, show
from ..base.quantities import several, whole_number
from .plan import LARGEST
from .problem import TrainingProblem

# ---- what options change ------------------------------------------------------------------------------

# How each sort of effect begins its sentence.
_SUBJECTS = {
    "memory": "The memory is",
    "time": "The time is",
    "memory and time": "Memory and time are",
    "model": "The model is",
}


class Effect(NamedTuple):
    """What an option changes that is not modelled."""

    changes: str
    """`memory`, `time`, `memory and time` or `model`."""
    what: str
    """In words, for the user."""
    usual: tuple[str, ...]
    """Values with which the option changes nothing."""


@cache
def effects_of(framework: str) -> tuple[Mapping[str, Effect], tuple[str, ...]]:
    """What a framework's options change that is not modelled, by name, and the beginnings of names of harmless options:
    `flag_effects.toml` has both. DeepSpeed starts programs that take Megatron's options as well."""
    table = tomllib.loads(Path(__file__).with_name("flag_effects.toml").read_text("utf-8"))[framework]
    effects, harmless = effects_of("megatron") if framework == "deepspeed" else ({}, ())
    own = {}
    for sort in _SUBJECTS:
        for what, options in table.get(sort, {}).items():
            for option in options.split():
                name, *usual = option.replace("=", "|").split("|")
                own[name] = Effect(sort, what, tuple(usual))
    return {**effects, **own}, (*harmless, *table["harmless"].split())


def is_harmless(framework: str, name: str) -> bool:
    """Does an option change nothing here? A beginning must end where the name does, or at a dash or dot; with a star it
    ends anywhere."""
    return any(
        name.startswith(beginning[:-1])
        if beginning.endswith("*")
        else name == beginning or name.startswith((beginning + "-", beginning + "."))
        for beginning in effects_of(framework)[1]
    )


# ---- options of a command line -------------------------------------------------------------------------

WHERE = "command line"
MOST_CHARACTERS = 200_000
# The most characters of an option in a sentence.
MOST_SHOWN = 80
# Ends of words that name programs, which belong to no option.
PROGRAMS = (".py", ".sh")
# What files write behind an option that is set, or is not.
YES, NO = ("true", "yes", "1"), ("false", "no", "0")


def is_path(text: str) -> bool:
    """Is the text a file, or does it look like one? Words of a configuration have "=", and flags begin with dashes."""
    looks_like_one = "=" not in text and "--" not in text and os.path.splitext(text)[1][1:].isalpha()
    return looks_like_one or os.path.isfile(text)


def words_of_options(text: str) -> dict[str, tuple[str, ...]]:
    """Each option with the words after it, as a shell divides them; the last of several counts.

    Programs are left out. Names are compared with dashes, which some programs write as underscores.
    """
    _check_length(len(text))
    try:
        words = shlex.split(re.sub(r"\\\r?\n", " ", text))
    except ValueError as error:
        raise InputError(WHERE, f"cannot be read ({str(error).lower()})", "close every quote") from None
    options: dict[str, tuple[str, ...]] = {}
    name = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            key, equals, value = word[2:].partition("=")
            name = dashed(key.rstrip(":"))
            options[name] = (value,) if equals else ()
        elif name is not None and not word.endswith(PROGRAMS):
            options[name] = (*options[name], word)
    return options


def _check_length(characters: int) -> None:
    if characters > MOST_CHARACTERS:
        raise InputError(WHERE, f"has {characters} characters", f"give at most {MOST_CHARACTERS}")


# What a shell script gives a variable: a list in brackets, a text in quotes, or a word; `+=` adds to it. What comes
# before, such as `export` or `declare -i`, changes nothing here.
_ASSIGNED = re.compile(
    r"""(?:^|;)[ \t]*(?:(?:export|readonly|local|declare|typeset)[ \t]+(?:-\w+[ \t]+)*)?([A-Za-z_]\w*)(\+?)="""
    r"""(?:\(((?:[^()$]|\$(?!\(\()|\$\(\([^()]*\)\))*)\)|"([^"]*)"|'([^']*)'|(\$\(\([^()]*\)\)|[^\s;]*))"""
    r"""[ \t]*(?=;|$)""",
    re.MULTILINE,
)
# A list in quotes stays several words.
_VARIABLE = re.compile(r'"?\$\{([A-Za-z_]\w*)\[@\]\}"?|\$\{(\w+)(?::?[-=]([^{}]*))?\}|\$([A-Za-z_]\w*)')
_PRODUCT = re.compile(r"\$\(\(([\w *]{1,100})\)\)")
# What the script itself was started with.
_ARGUMENTS = re.compile(r"""["']?\$[@*]["']?""")


def without_variables(script: str) -> str:
    """A shell script's command lines with the values that the script itself gives its variables; nothing is run.

    A variable that it does not set keeps its name, unless `${NAME:-value}` says what stands for it. Of two branches the
    last one counts.
    """
    values: dict[str, str] = {}
    length = 0

    def value(match: re.Match[str]) -> str:
        entries, braces, usual, name = match.groups()
        return values.get(entries or braces or name, match[0] if usual is None else usual)

    def product(match: re.Match[str]) -> str:
        factors = [whole_number(values.get(word.strip(), word.strip())) for word in match[1].split("*")]
        known = [factor for factor in factors if factor is not None]
        return str(prod(known)) if len(known) == len(factors) and max(known) < LARGEST * 1000 else match[0]

    def filled(text: str) -> str:
        nonlocal length
        text = _VARIABLE.sub(value, text)
        length += len(text)
        _check_length(length)
        return _PRODUCT.sub(product, text)

    _check_length(len(script))
    script = re.sub(r"\\\r?\n", " ", script)
    for match in _ASSIGNED.finditer(script):
        text = filled(next((text for text in match.groups()[2:] if text is not None), ""))
        values[match[1]] = f"{values.get(match[1], '')} {text}" if match[2] else text
    return _ARGUMENTS.sub("", filled(_ASSIGNED.sub("", script)))


def dashed(name: str) -> str:
    return name.strip().replace("_", "-")


def flattened(data: Mapping[str, Any], above: str = "") -> dict[str, tuple[str, ...]]:
    """A file's entries as options: `seq_len` of the section `training` is training.seq-len."""
    options: dict[str, tuple[str, ...]] = {}
    for key, value in data.items():
        name = above + dashed(str(key))
        if isinstance(value, Mapping):
            options |= flattened(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(entry, list) for entry in value):
            options[name] = tuple(
                ",".join(map(str, entry)) if isinstance(entry, list) else str(entry) for entry in value
            )
        elif isinstance(value, list):
            options[name] = tuple(map(str, value))
        elif value is not None:
            options[name] = (str(value).lower() if isinstance(value, bool) else str(value),)
    return options


@dataclass
class Flags:
    """The options of a command line or file, which a framework's reader asks for one by one, and what it says of them:
    a configuration in our words, and sentences for the user."""

    problem: TrainingProblem
    """What is trained on what; readers change what the options say of it."""
    options: Mapping[str, tuple[str, ...]]
    prefix: str = "--"
    asked: dict[str, str] = field(default_factory=dict)
    """Options that were asked for and are there, with their words."""
    seen: set[str] = field(default_factory=set)
    """Options that were asked for, there or not."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The framework's name for each of our keys, for messages."""
    keys: dict[str, str] = field(default_factory=dict)
    """The configuration in our words, by key."""
    contradicted: list[str] = field(default_factory=list)
    """Sentences on what the options say of the model, the GPUs, the batch or the sequence unlike the problem."""
    told: list[str] = field(default_factory=list)
    hidden_share: float = 1.0
    """Share that the options hide of the data-parallel communication that is usually hidden."""
    why_not_hidden: str | None = None
    """What keeps the rest from being hidden: a sentence without its end."""
    differences: list[str] = field(default_factory=list)
    """What differs from the problem that was given, in words with the option that decides it."""

    def words(self, name: str) -> tuple[str, ...] | None:
        """All words after the option; None where it is absent. Our own keys stand for the framework's names."""
        name = self.names.get(name, name)
        self.seen.add(name)
        words = self.options.get(name)
        if words is not None:
            self.asked[name] = " ".join(words)
        return words

    def text(self, name: str) -> str | None:
        """The one word behind the option; None where the option is absent."""
        words = self.words(name)
        if words is None:
            return None
        if not words:
            raise self.wrong(name, "has no value", "give it one")
        return words[0]

    def whole(self, name: str, usual: int, least: int = 1) -> int:
        """The option's whole number; `usual` where the option is absent."""
        number = self.amount(name, least)
        return usual if number is None else number

    def amount(self, name: str, least: int = 1) -> int | None:
        """The option's whole number; None where the option is absent."""
        text = self.text(name)
        if text is None:
            return None
        digits = text.removeprefix("-")
        negative = digits != text
        number = whole_number(digits)
        if number is None:
            unset = (
                "give a whole number; the script gives this variable none" if "$" in text else "give a whole number"
            )
            raise self.wrong(name, f"is {show(text)}", unset)
        value = -number if negative else number
        if not least <= value <= LARGEST * 1000:
            raise self.wrong(name, f"is {show(text)}", f"give a whole number from {least} on")
        return value

    def flag(self, name: str) -> bool:
        """Is the option set? Files write `true` after it."""
        words = self.words(name)
        if words is None:
            return False
        if not words or words[0].lower() in YES:
            return True
        if words[0].lower() in NO:
            return False
        raise self.wrong(name, f"is {show(words[0])}", "give true or false, or the option alone")

    def choice(self, name: str, known: Collection[str], usual: str) -> str:
        """The option's word, which must be a known one; `usual` where the option is absent."""
        text = self.text(name)
        if text is None:
            return usual
        if text not in known:
            close = nearest(text, known)
            raise self.wrong(
                name, f"is {show(text)}", f'write "{close}"' if close else "give " + " or ".join(known)
            )
        return text

    def wrong(self, name: str, problem: str, remedy: str) -> InputError:
        return InputError(self.shown(self.names.get(name, name)), problem, remedy)

    def left(self) -> tuple[str, ...]:
        """Options that nobody asked for."""
        return tuple(name for name in self.options if name not in self.asked)

    def shown(self, name: str) -> str:
        """The option as its program spells it: files, and options with sections, have underscores."""
        return (
            f"{self.prefix}{name}" if self.prefix and "." not in name else f"{self.prefix}{name.replace('-', '_')}"
        )

    # ---- what the reader says -------------------------------------------------------------------------------

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)

    def decide(self, field: str, value: Any, difference: str) -> None:
        """Judge with what the options say, or leave out, instead of what the problem had."""
        if getattr(self.problem, field) != value:
            self.problem = self.problem.replace(**{field: value})
            self.differences.append(difference)

    def decide_switch(self, field: str, on: bool, name: str, words: tuple[str, str]) -> None:
        """Decide what an option switches on, and its absence off; `words` say both."""
        shown = self.shown(name)
        self.decide(field, on, f"{words[0]} ({shown})" if on else f"{words[1]} (no {shown})")

    def decide_prediction(self, count: int, why: str) -> None:
        """Decide how many layers there are for multi-token prediction."""
        if not self.problem.model.own:
            model = replace(self.problem.model, prediction_layers=count)
            layers = several(count, "layer") if count else "no layer"
            self.decide("model", model, f"{layers} for multi-token prediction ({why})")

    def decide_precision(self, name: str, option: str) -> None:
        """Decide the number format, if the GPU has it."""
        if all(name in pool.gpu.flops for pool in self.problem.pools):
            self.decide("precision", name, f"{name} ({self.shown(option)})")
        else:
            self.tell(
                f"{self.shown(option)} asks for {name}, which {self.problem.gpu.name} does not have; memory and time "
                f"are of {self.problem.precision}."
            )

    def hides(self, share: float, why: str) -> None:
        self.hidden_share, self.why_not_hidden = share, why

    def compare(self, what: str, known: int | None, *names: str, of_job: bool = True) -> None:
        """Tell where one of these options says another number than the problem does."""
        for name in names:
            value = self.amount(name, least=0)
            if value is not None and value != (known or 0):
                sentences = self.contradicted if of_job else self.told
                sentences.append(f"{self.shown(name)} is {value}, and {what} of the problem is {known or 0}.")

    def compare_devices(self, problem: TrainingProblem, nodes: str, each: str) -> None:
        """Tell where a launcher starts another number of processes."""
        count, per_node = self.processes(nodes, each)
        if per_node is not None and count is not None and per_node * count != problem.devices:
            self.contradicted.append(
                f"The launcher starts {per_node * count} processes, and the problem has {problem.devices} GPUs."
            )

    def processes(self, nodes: str, each: str) -> tuple[int | None, int | None]:
        """Nodes of a launcher, one where it says none, and processes of each; None: a variable that has no value."""
        count, per_node = (self.maybe(name) for name in (nodes, each))
        return (1 if count is None and nodes not in self.options else count), per_node

    def maybe(self, name: str, least: int = 1) -> int | None:
        """The option's whole number; None where it is absent, or a word that something else fills in."""
        text = self.text_or_none(name)
        return None if text is None or "$" in text or text in ("auto", "gpu") else self.amount(name, least)

    def text_or_none(self, name: str) -> str | None:
        """The one word behind the option; None where there is none."""
        words = self.words(name)
        return words[0] if words else None

    def tell_differences(self) -> None:
        if self.differences:
            self.tell(f"Judged as the options say, unlike the problem: {', '.join(self.differences)}.")

    def tell_effects(self, framework: str) -> None:
        """Name every option that changes what is not modelled, in one sentence for each sort of change."""
        changing: dict[str, list[str]] = {sort: [] for sort in _SUBJECTS}
        effects = effects_of(framework)[0]
        for name in self.left():
            effect = effects.get(name)
            words = () if effect is None else self.words(name) or ()
            if effect is not None and (not words or words[0] not in (*effect.usual, *NO)):
                shown = " ".join((self.shown(name), *words))
                changing[effect.changes].append(f"{shown[:MOST_SHOWN]} ({effect.what})")
        for sort, options in changing.items():
            if options:
                those = "this option" if len(options) == 1 else "these options"
                self.tell(
                    f"{_SUBJECTS[sort]} computed as without {those}, not modelled here: {', '.join(options)}."
                )

    def meant(self, unknown: Iterable[str]) -> dict[str, str]:
        """The options that somebody may have meant by unknown ones, each as its program spells it."""
        near = {name: nearest(name, sorted(self.seen)) for name in unknown}
        return {self.shown(name): self.shown(close) for name, close in near.items() if close is not None}

    def compare_switch(self, what: str, known: bool, name: str, described: bool) -> None:
        """Tell where a switch is set and the problem is otherwise, or is absent from flags that describe the model."""
        if self.flag(name) != known and (described or not known):
            self.tell(f"{what} ({self.shown(name)}) is on one side alone: in the flags or in the problem's model.")
