"""What a framework's flags say, in our words, and what they say of the problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .flag_words import Given
from .problem import TrainingProblem


@dataclass
class Said:
    """What a reader of flags gives: a configuration in our words, and sentences for the user."""

    names: Mapping[str, str]
    """The framework's name for each of our keys, for messages."""
    beside: tuple[str, ...] = ()
    """Beginnings of the names of options that say nothing of a configuration."""
    words: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)

    def is_aside(self, name: str) -> bool:
        """Does an option say nothing of a configuration? A beginning in `beside` must end where the name does, or at a
        dash or dot; with a star it ends anywhere."""
        return any(
            name.startswith(beginning[:-1])
            if beginning.endswith("*")
            else name == beginning or name.startswith((beginning + "-", beginning + "."))
            for beginning in self.beside
        )


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
