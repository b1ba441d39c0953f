"""Errors that a user can mend: each is one sentence that names the place and the remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
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

    In this order: the same but for capitals and what stands between words; one that begins like it, or like which it
    begins (memory_bytes, memory); one whose words are abbreviated (acc_time, accelerator_time), or some left out
    (tensor-size, tensor-parallel-size); the one with the fewest slips of the pen, or whose first words have the fewest
    (tarnawsky, tarnawski-table1; microbatches, micro-batch-size).
    """
    word, names = _plainly(str(name)[:100]), list(known)
    ranked = [(rank, other) for other in names if (rank := _unlikeness(word, _plainly(other))) is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _plainly(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-").strip("-")


def _unlikeness(word: str, name: str) -> tuple[int, ...] | None:
    """How little the name is like the word, as a rank of the kind of likeness and numbers within it."""
    if not word or not name:
        return None
    if word.replace("-", "") == name.replace("-", ""):
        return 0, 0
    if len(word) >= 3 and name.startswith(word):
        return 1, 0
    slips = distance(word, name, _most_slips(word))
    if slips is not None and slips == 1:
        return 2, slips
    if len(name) >= 3 and word.startswith(name + "-"):
        return 3, -len(name)
    if _abbreviates(word.split("-"), name.split("-")):
        return 4, 0
    if slips is not None:
        return 5, slips
    if _leaves_out(word.split("-"), name.split("-")):
        return 6, len(name)
    return _like_the_beginning(word, name)


def _abbreviates(word: list[str], name: list[str]) -> bool:
    """Is each part of the word the beginning of the same part of the name?"""
    return len(word) == len(name) > 1 and all(
        len(short) >= 2 and long.startswith(short) for short, long in zip(word, name, strict=True)
    )


def _leaves_out(word: list[str], name: list[str]) -> bool:
    """Are these several parts of the name in their order, the first one before all?"""
    rest = iter(name)
    return len(word) > 1 and word[0] == name[0] and all(part in rest for part in word)


def _like_the_beginning(word: str, name: str) -> tuple[int, ...] | None:
    """The rank of a name whose first words, written as one, are spelt much like the word; a short one goes first."""
    if len(word) < LEAST_BEGINNING:
        return None
    joined = word.replace("-", "")
    beginnings = [each for each in accumulate(name.split("-")) if each[:1] == joined[0]][: name.count("-")]
    slips = [distance(joined, beginning, len(word) // 4) for beginning in beginnings]
    least = min((each for each in slips if each is not None), default=None)
    return None if least is None else (7, least, len(name))


# Shorter words are like the beginning of too many others.
LEAST_BEGINNING = 5


def _most_slips(word: str) -> int:
    """Slips of the pen that a word of this length may have and still be told from others."""
    return 0 if len(word) < 3 else 1 if len(word) < 6 else 2 if len(word) < 10 else 3


def distance(one: str, other: str, most: int) -> int | None:
    """Letters to add, drop, change or swap with their neighbour that turn one text into the other; None: above
    `most`."""
    if abs(len(one) - len(other)) > most or len(set(one) - set(other)) > most:
        return None
    before: list[int] = []
    last: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one):
        before, last, row = last, row, [i + 1]
        for j, its in enumerate(other):
            cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (letter != its))
            if i and j and letter == other[j - 1] and one[i - 1] == its:
                cost = min(cost, before[j - 1] + 1)
            row.append(cost)
    return row[-1] if row[-1] <= most else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The nearest known name as a question, to follow the unknown one; an empty text where no name is near."""
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


# Numbers that people write out.
NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)


def in_digits(text: str) -> str:
    """The end of a sentence about a text where a number belongs: how to write it, where the text is a number."""
    word = text.strip().lower()
    return f"; write {NUMBER_WORDS.index(word)}" if word in NUMBER_WORDS else ""


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
