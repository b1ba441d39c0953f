"""Errors that a user can mend: each is one sentence that names the place and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

Entry = TypeVar("Entry")

# Longer texts are cut in messages: a message must fit a terminal whatever the input holds.
SHOWN_CHARACTERS = 60

# Whole numbers with more digits are described instead.
SHOWN_DIGITS = 30


class PipeplanError(Exception):
    """Base of every error that a user can cause and mend."""


class InputError(PipeplanError):
    """Bad input: `field` says where, `problem` what, `remedy` how to mend it; `file` is added by the reader.

    The message is one sentence on one line: ``FILE: FIELD PROBLEM; REMEDY.``

    Parameters
    ----------
    field : str
        Where: the path of a field in a file, or the name of an argument.
    problem : str
        What is wrong there, as the sentence goes on after the field.
    remedy : str
        How to mend it, as a request.
    file : str, optional
        The file. None: no file, or none that is known yet.
    """

    def __init__(self, field: str, problem: str, remedy: str, file: str | None = None) -> None:
        self.field = field
        self.problem = problem
        self.remedy = remedy
        self.file = file
        super().__init__(field, problem, remedy, file)

    def __str__(self) -> str:
        place = f"{self.file}: {self.field}" if self.file else self.field
        return printable(f"{place} {self.problem}; {self.remedy}.")

    def in_file(self, file: str) -> InputError:
        """A copy of the error that names the file."""
        return InputError(self.field, self.problem, self.remedy, file)

    def renamed(self, field_names: Mapping[str, str]) -> InputError:
        """A copy of the error with our field names replaced by the file's own."""
        head, dot, last = self.field.rpartition(".")
        return InputError(head + dot + field_names.get(last, last), self.problem, self.remedy, self.file)


@contextmanager
def errors_in(file: object) -> Iterator[None]:
    """Errors of the input inside the block name the file, where they name none yet."""
    try:
        yield
    except InputError as error:
        raise error if error.file else error.in_file(str(file)) from None


class TooLargeError(InputError):
    """A model would be too large to build: the run loses the proof, and keeps the plans that it has."""


class UsageError(PipeplanError):
    """A combination of options that makes no sense; the message lists those that do."""


class NotInstalledError(UsageError):
    """Something that was asked for is not on this machine; where several things were asked for, the others go on."""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that somebody may have meant; None where none is near.

    In this order: the same but for capitals and what stands between words; one that begins like it; one that is spelt
    nearly the same; one like which it begins (memory_bytes, memory); the most alike with the same first letter.
    """
    word, names = _plainly(str(name)[:100]), {_plainly(other): other for other in known if other}
    same = [near for near in names if word and word.replace("-", "") == near.replace("-", "")]
    longer = [near for near in names if len(word) >= LEAST_BEGINNING and near.startswith(word)]
    shorter = [near for near in names if len(near) >= LEAST_BEGINNING and word.startswith(near + "-")]
    first = [near for near in names if near[:1] == word[:1] != ""]
    alike, very = (get_close_matches(word, first, 1, share) for share in (ALIKE, VERY_ALIKE))
    found = (*same, *longer, *very, *sorted(shorter, key=len, reverse=True), *alike)
    return next((names[near] for near in found), None)


def _plainly(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-").strip("-")


# Shorter words are the beginning of too many others; and the shares of two words that must be the same.
LEAST_BEGINNING = 3
ALIKE, VERY_ALIKE = 0.66, 0.9


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The nearest known name as a question, to follow the unknown one; an empty text where no name is near."""
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def unknown_name(what: str, name: object, known: Iterable[str]) -> UsageError:
    """The error for a name that is none of `known`."""
    names = list(known)
    return UsageError(
        f"There is no {what} {show(name)}{did_you_mean(name, names)}; choose one of {', '.join(names)}."
    )


def unknown_choice(option: str, value: object, choices: Iterable[str]) -> UsageError:
    """The error for an option with a value that is none of its choices."""
    names = list(choices)
    return UsageError(f"{option} is {show(value)}{did_you_mean(value, names)}; give one of {', '.join(names)}.")


def one_of(option: str, value: str, choices: Collection[str]) -> str:
    """The value, where it is one of the choices; otherwise a UsageError that lists them."""
    if value not in choices:
        raise unknown_choice(option, value, choices)
    return value


def named(name: str, table: Mapping[str, Entry], what: str) -> Entry:
    """The entry of that name, or an error that lists the names that there are."""
    if name not in table:
        raise unknown_name(f"{what} named", name, table)
    return table[name]


def wrong_argument(argument: str, given: object, expected: str, remedy: str) -> InputError:
    """The error for an argument of another type than expected; `remedy` says how to get what is expected."""
    return InputError(f"argument {argument}", f"is {_in_python(given)}, not {expected}", remedy)


def _in_python(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the text {show(value)}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def printable(text: str) -> str:
    """The text with everything escaped that a terminal might obey instead of showing it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def show(value: object) -> str:
    """A value from an input file as a message quotes it: short, on one line, harmless."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN_CHARACTERS else value[: SHOWN_CHARACTERS - 3] + "...")
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**SHOWN_DIGITS:
        # Printing it in full may be refused by Python itself, which limits the digits of a conversion.
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


# A broken rule, whatever the kind of problem.


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, by its stable name, and how it is broken."""

    rule: str
    message: str

    def __str__(self) -> str:
        return self.message


def assignment_faults(
    stages: Sequence[Sequence[object]], known: Collection[object], noun: str
) -> Iterator[Violation]:
    """What keeps stages from being a division of all members, which a reader calls by this noun."""
    counts = Counter(member for stage in stages for member in stage)
    for member, count in counts.items():
        if member not in known:
            yield Violation("assignment", f"The plan names the unknown {noun} {show(member)}.")
        elif count > 1:
            yield Violation("assignment", f"{noun.capitalize()} {show(member)} is listed {count} times, not once.")
    for member in known:
        if member not in counts:
            yield Violation("assignment", f"{noun.capitalize()} {show(member)} is in no stage.")
    for number, stage in enumerate(stages):
        if not stage:
            yield Violation("assignment", f"Stage {number} is empty.")


# Rules that a plan may break and still be run: the simulation shows what comes of it.
HARMLESS = frozenset({"memory", "devices", "batches", "divides", "in-flight", "deadlock"})


def refuse_broken(violations: Iterable[Violation], what: str = "simulated") -> None:
    """Raise a UsageError for a plan that breaks a rule without which it cannot be `what`: simulated or lowered, say."""
    blocking = next((violation for violation in violations if violation.rule not in HARMLESS), None)
    if blocking is not None:
        raise UsageError(f"The plan cannot be {what}. {blocking.message}")
