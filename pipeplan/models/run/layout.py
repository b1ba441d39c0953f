"""The messages between passes: which values go from which rank to which, and by what tag.

Sender and receiver both know all messages in advance, so that nothing but tensors has to be sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ...instances.timeline.model import WEIGHTS, Pass
from .orders import RunStage


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that one stage makes and others read."""

    name: str
    producer: int
    readers: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str
    gradient: bool
    """Does a gradient of its size come back?"""


class Message(NamedTuple):
    """A value of one micro-batch on its way to one reader, or its gradient on the way back."""

    value: int
    reader: int
    micro_batch: int
    back: bool


@dataclass(frozen=True)
class Layout:
    """All messages of a run, by the pass that makes them and by the pass that reads them."""

    stages: tuple[RunStage, ...]
    values: tuple[Value, ...]
    micro_batches: int

    @cached_property
    def _made(self) -> list[list[int]]:
        """The numbers of the values that each stage makes."""
        made: list[list[int]] = [[] for _ in self.stages]
        for number, value in enumerate(self.values):
            made[value.producer].append(number)
        return made

    @cached_property
    def _read(self) -> list[list[int]]:
        """The numbers of the values that each stage reads."""
        read: list[list[int]] = [[] for _ in self.stages]
        for number, value in enumerate(self.values):
            for reader in value.readers:
                read[reader].append(number)
        return read

    def read_by(self, run_pass: Pass) -> list[Message]:
        """Messages that a pass needs of other stages: values forward, their gradients backward."""
        x, j, part = run_pass
        if part == WEIGHTS:
            return []
        if j > 0:
            return [Message(number, x, j, False) for number in self._read[x]]
        return self._of_readers(x, -j, back=True)

    def made_by(self, run_pass: Pass) -> list[Message]:
        """Messages that a pass has for other stages."""
        x, j, part = run_pass
        if part == WEIGHTS:
            return []
        if j > 0:
            return self._of_readers(x, j, back=False)
        return [Message(number, x, -j, True) for number in self._read[x] if self.values[number].gradient]

    def _of_readers(self, x: int, micro_batch: int, *, back: bool) -> list[Message]:
        return [
            Message(number, reader, micro_batch, back)
            for number in self._made[x]
            if self.values[number].gradient or not back
            for reader in self.values[number].readers
        ]

    def sender(self, message: Message) -> int:
        return self._rank(message, message.back)

    def receiver(self, message: Message) -> int:
        return self._rank(message, not message.back)

    def _rank(self, message: Message, of_reader: bool) -> int:
        stage = message.reader if of_reader else self.values[message.value].producer
        return self.stages[stage].rank_of(message.micro_batch)

    def tag(self, message: Message) -> int:
        """A number that no other message has."""
        place = message.value * len(self.stages) + message.reader
        return 2 * (place * self.micro_batches + message.micro_batch - 1) + message.back

    def channel(self, orders: Sequence[Sequence[Pass]], sender: int, receiver: int) -> list[Message]:
        """All messages of one rank to another in a step, in the order in which they are sent."""
        return [
            message
            for run_pass in orders[sender]
            for message in self.made_by(run_pass)
            if self.sender(message) == sender and self.receiver(message) == receiver
        ]
