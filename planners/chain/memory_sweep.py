"""Does any allocation need at most so much memory? Layer after layer, all ways to fill the GPUs side by side.

What has been decided about a GPU so far is three numbers, and equal GPUs are interchangeable, so many partial
allocations are one state. Slots make every change of GPU expensive, which keeps the states few where memory is tight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_STATES = 20_000
"""After a layer; with more, the question is left to a solver."""

DATA = ("weights", "kept", "own", "slots", "timed", "moved", "gpus")

Fill = tuple[int, int, int]
"""Of one GPU: weights and slots; kept inputs; the most that kept inputs and what runs take together."""

State = tuple[Fill, tuple[Fill, ...]]
"""The GPU of the last layer, and the other GPUs in use, sorted."""

Way = tuple[tuple[int, ...], int, tuple[int, ...]]
"""One allocation that leads to a state: GPU of each layer, label of the last one's, labels of the others."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`fits` is None where there were too many states; `allocation` is one that fits."""

    fits: bool | None
    allocation: tuple[int, ...] | None = None


def sweep(data: Mapping[str, Any], limit: int, over: Callable[[], bool] = lambda: False) -> Answer:
    """The answer for a limit in units; `data` is the payload of the model for the same question."""
    return _Sweep(**{name: data[name] for name in DATA}, limit=limit).run(over)


@dataclass(frozen=True)
class _Sweep:
    weights: Sequence[int]
    kept: Sequence[int]
    own: Sequence[int]
    slots: Sequence[int]
    timed: Sequence[bool]
    """Does this layer or one behind it take time?"""
    moved: Sequence[int | None]
    """What is held at both ends of a border during its transfers; None: the moment tells nothing."""
    gpus: int
    limit: int

    def run(self, over: Callable[[], bool]) -> Answer:
        first = self._put((0, 0, 0), 0, 0)
        states: dict[State, Way] = {} if first is None else {(first, ()): ((0,), 0, ())}
        kept = [size if timed else 0 for size, timed in zip(self.kept, self.timed, strict=True)]
        rest = sum(self.weights) + sum(kept) - self.weights[0] - kept[0]
        for layer in range(1, len(self.weights)):
            rest -= self.weights[layer] + kept[layer]
            states = {
                state: way
                for before, known in states.items()
                for state, way in self._next(before, known, layer)
                if not self.timed[layer] or self._room(state) >= rest
            }
            if len(states) > MOST_STATES or over():
                return Answer(None)
        way = next(iter(states.values()), None)
        return Answer(False) if way is None else Answer(True, way[0])

    def _put(self, fill: Fill, layer: int, slot: int) -> Fill | None:
        """The GPU with one more layer, where that fits."""
        standing = fill[0] + self.weights[layer] + slot
        kept = fill[1] + self.kept[layer]
        most = max(fill[2], kept + self.own[layer]) if self.timed[layer] else fill[2]
        return (standing, kept, most) if standing + most <= self.limit else None

    def _next(self, state: State, way: Way, layer: int) -> Iterator[tuple[State, Way]]:
        """The next layer on the same GPU, on another one in use, on an empty one."""
        current, others = state
        allocation, label, labels = way
        stayed = self._put(current, layer, 0)
        if stayed is not None:
            yield (stayed, others), ((*allocation, label), label, labels)
        slot, moved = self.slots[layer - 1], self.moved[layer - 1]
        left = self._during((current[0] + slot, current[1], current[2]), moved)
        waiting = [self._during(fill, None if moved is None else 0) for fill in others]
        if left[0] + left[2] > self.limit or any(fill[0] + fill[2] > self.limit for fill in waiting):
            return
        for j, fill in enumerate(others):
            if j and fill == others[j - 1]:
                continue
            entered = self._put(self._during(fill, moved), layer, slot)
            if entered is not None:
                rest = [
                    *zip(waiting[:j], labels[:j], strict=True),
                    *zip(waiting[j + 1 :], labels[j + 1 :], strict=True),
                ]
                yield _moved(entered, labels[j], [*rest, (left, label)], allocation)
        if len(others) + 1 < self.gpus:
            entered = self._put(self._during((0, 0, 0), moved), layer, slot)
            if entered is not None:
                all_others = [*zip(waiting, labels, strict=True), (left, label)]
                yield _moved(entered, len(others) + 1, all_others, allocation)

    def _during(self, fill: Fill, moved: int | None) -> Fill:
        """A transfer takes time: what is kept is there meanwhile, and so is what it moves."""
        return fill if moved is None else (fill[0], fill[1], max(fill[2], fill[1] + moved))

    def _room(self, state: State) -> int:
        """For weights and kept inputs of later layers, on all GPUs together."""
        used = (state[0], *state[1])
        return self.gpus * self.limit - sum(standing + kept for standing, kept, _ in used)


def _moved(
    entered: Fill, label: int, others: list[tuple[Fill, int]], allocation: tuple[int, ...]
) -> tuple[State, Way]:
    others.sort()
    state = (entered, tuple(fill for fill, _ in others))
    return state, ((*allocation, label), label, tuple(label for _, label in others))
