"""What a framework's flags say, in our words, and what they say of the problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..base.errors import nearest
from .flag_effects import Changes, Effect
from .flag_words import NO, Given
from .problem import TrainingProblem

# The most characters of an option in a sentence.
MOST_SHOWN = 80


@dataclass
class Said:
    """What a reader of flags gives: a configuration in our words, and sentences for the user."""

    names: Mapping[str, str]
    """The framework's name for each of our keys, for messages."""
    effects: Mapping[str, Effect] = field(default_factory=dict)
    """What known options change that is not modelled."""
    harmless: tuple[str, ...] = ()
    """Beginnings of the names of options that change neither memory nor time nor the model."""
    words: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    hidden_share: float = 1.0
    """Share that the options hide of the data-parallel communication that is usually hidden."""
    optimizer: str | None = None
    """The optimizer that the options name, as `instances/physics/optimizers.py` calls it; None: they name none."""
    why_not_hidden: str | None = None
    """What keeps the rest from being hidden: a sentence without its end."""

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)

    def hides(self, share: float, why: str) -> None:
        self.hidden_share, self.why_not_hidden = share, why

    def is_harmless(self, name: str) -> bool:
        """Does an option change nothing here? A beginning in `harmless` must end where the name does, or at a dash or
        dot; with a star it ends anywhere."""
        return any(
            name.startswith(beginning[:-1])
            if beginning.endswith("*")
            else name == beginning or name.startswith((beginning + "-", beginning + "."))
            for beginning in self.harmless
        )


# How each sort of effect begins its sentence.
_SUBJECTS: Mapping[Changes, str] = {
    "memory": "The memory is",
    "time": "The time is",
    "memory and time": "Memory and time are",
    "model": "The model is",
}


def tell_effects(said: Said, given: Given) -> None:
    """Name every option that changes what is not modelled, in one sentence for each sort of change."""
    changing: dict[Changes, list[str]] = {sort: [] for sort in _SUBJECTS}
    for name in given.left():
        effect = said.effects.get(name)
        words = () if effect is None else given.words(name) or ()
        if effect is not None and (not words or words[0] not in (*effect.usual, *NO)):
            shown = " ".join((given.shown(name), *words))
            changing[effect.changes].append(f"{shown[:MOST_SHOWN]} ({effect.what})")
    for sort, options in changing.items():
        if options:
            those = "this option" if len(options) == 1 else "these options"
            said.tell(f"{_SUBJECTS[sort]} computed as without {those}, not modelled here: {', '.join(options)}.")


def meant(given: Given, unknown: Iterable[str]) -> dict[str, str]:
    """The options that somebody may have meant by unknown ones, each as its program spells it."""
    near = {name: nearest(name, sorted(given.seen)) for name in unknown}
    return {given.shown(name): given.shown(close) for name, close in near.items() if close is not None}


def share_of_gradients(problem: TrainingProblem, zero: int) -> float:
    """The share of sums of gradients in what data-parallel ranks send: the rest gathers weights after the update."""
    states = problem.states.get(zero)
    if states is None:  # which the framework's rules refuse
        return 1.0
    gradients, weights = (kind.whole + kind.shared for kind in (states.gradients, states.weights))
    return gradients / (gradients + weights)


def compare(said: Said, given: Given, name: str, known: int | None, what: str) -> None:
    """Tell where an option says another number than the problem does."""
    value = given.amount(name, least=0)
    if value is not None and value != (known or 0):
        said.tell(f"{given.shown(name)} is {value}, and {what} of the problem is {known or 0}.")


def compare_devices(said: Said, given: Given, problem: TrainingProblem, nodes: str, each: str) -> None:
    """Tell where a launcher starts another number of processes."""
    per_node = given.amount(each)
    count = given.amount(nodes)
    if per_node is not None and per_node * (count or 1) != problem.devices:
        said.tell(
            f"The launcher starts {per_node * (count or 1)} processes, and the problem has {problem.devices} GPUs."
        )
