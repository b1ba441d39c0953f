"""An order in which one micro-batch passes alone within the memory of all devices, and what is safe beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .whole import WholeProblem

# Sets of blocks that the search for an order looks at; beyond them it gives up.
MOST_STATES = 100_000


def order_alone(whole: WholeProblem) -> tuple[int, ...] | bool:
    """Blocks in an order that one micro-batch can follow when there is no other.

    False: there is none, so that no schedule exists where nothing is given back before it is taken. True: there may be
    one, but it was not found among so many states.

    A block that fits and keeps no memory runs at once: it never harms those that come later. Only among blocks that
    keep memory is there a choice; the smallest comes first, and the search goes back from dead ends.
    """
    count = len(whole.times)
    if all(room is None for room in whole.room) and not any(whole.gives_first):
        return whole.problem.order
    blocking = [sum(1 for _, o, _ in rows if not o) for rows in whole.before]
    memory = [0] * len(whole.room)
    order: list[int] = []
    ready = [b for b in range(count) if not blocking[b]]
    seen: set[int] = set()
    done = 0

    def fits(b: int) -> bool:
        return all(
            (room := whole.room[d]) is None or memory[d] + peak <= room for d, peak, _ in whole.uses[b]
        ) and all(memory[d] + whole.standing[d] + change >= 0 for d, _, change in whole.uses[b])

    def run(b: int, sign: int) -> None:
        nonlocal done
        done ^= 1 << b
        for d, _, change in whole.uses[b]:
            memory[d] += sign * change
        if sign > 0:
            order.append(b)
            ready.remove(b)
        else:
            order.pop()
        for j, offset, _ in whole.after[b]:
            if not offset:
                blocking[j] -= sign
                if sign > 0 and not blocking[j]:
                    ready.append(j)
                elif sign < 0 and blocking[j] == 1:
                    ready.remove(j)
        if sign < 0:
            ready.append(b)

    def choices() -> list[int]:
        able = [b for b in ready if fits(b)]
        free = [b for b in able if all(c <= 0 and not whole.gives_first[d] for d, _, c in whole.uses[b])]
        if free:
            return free[:1]
        return sorted(able, key=lambda b: (sum(change for *_, change in whole.uses[b]), whole.tails[b], b))

    levels: list[Iterator[int]] = [iter(choices())]
    while len(order) < count:
        b = next(levels[-1], None)
        if b is None:
            levels.pop()
            if not levels:
                return False
            run(order[-1], -1)
            continue
        run(b, 1)
        if done in seen:
            run(b, -1)
            continue
        if len(seen) >= MOST_STATES:
            return True
        seen.add(done)
        levels.append(iter(choices()))
    return tuple(order)


@dataclass(frozen=True, slots=True)
class Rest:
    """What the blocks that a micro-batch has still to run on a device do to its memory, in the order that it follows
    alone, relative to what is held before them."""

    change: int
    """After the last of them."""
    most: int
    """The most at any time."""
    least: int
    """The least after any of them; not above 0."""


@dataclass
class Safety:
    """May a block start so that afterwards all micro-batches can still end, one after the other, in their order?

    Each follows the order that one can follow alone, as far as it has not run it yet. Blocks change the memory of their
    own devices alone, so every device is looked at by itself. From such a state there is always a block that may start
    next: the first one that is left, by micro-batch and then by that order. So whoever keeps to safe states never ends
    up with devices that wait for each other's memory.
    """

    whole: WholeProblem
    alone: tuple[int, ...]
    batches: int
    held: list[int] = field(init=False)
    _own: list[list[int]] = field(init=False)
    """The blocks of each device that use memory, in the order that a micro-batch follows alone."""
    _bit: list[dict[int, int]] = field(init=False)
    _left: list[dict[int, int]] = field(init=False)
    """For each device, the blocks that are left of each micro-batch that has begun there, as bits, by micro-batch in
    order."""
    _rests: list[dict[int, Rest]] = field(init=False)
    _begun: list[int] = field(init=False)
    _watched: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        devices = range(len(self.whole.room))
        self.held = [0 for _ in devices]
        self._own = [[b for b in self.alone if any(d == e for e, *_ in self.whole.uses[b])] for d in devices]
        self._bit = [{b: 1 << k for k, b in enumerate(row)} for row in self._own]
        self._left = [{} for _ in devices]
        self._rests = [{} for _ in devices]
        self._begun = [0 for _ in devices]
        self._watched = [self.whole.room[d] is not None or self.whole.gives_first[d] for d in devices]

    def holds(self) -> bool:
        """Is the state before the first block safe? Where a micro-batch leaves memory behind, too many may not fit."""
        return all(self._ends(d, []) for d in range(len(self.held)) if self._watched[d])

    def allows(self, b: int, n: int) -> bool:
        """May the next run of a block start, whose micro-batches run in order?"""
        for d, peak, change in self.whole.uses[b]:
            if not self._watched[d]:
                continue
            room, floor = self.whole.room[d], -self.whole.standing[d]
            memory_after = self.held[d] + change
            if (room is not None and self.held[d] + peak > room) or memory_after < floor:
                return False
            left, bit = self._left[d], self._bit[d][b]
            rests = [self._rest(d, bits & ~bit if k == n else bits) for k, bits in left.items()]
            if n not in left:
                rests.append(self._rest(d, self._all(d) & ~bit))
            if not self._ends(d, rests, memory_after, n not in left):
                return False
        return True

    def _ends(self, d: int, rests: list[Rest], held: int = 0, one_more: bool = False) -> bool:
        """Can the micro-batches that have begun end, and then all others, where the device holds `held` now?"""
        room, floor = self.whole.room[d], -self.whole.standing[d]
        waiting = self.batches - self._begun[d] - one_more
        for rest in rests:
            if (room is not None and held + rest.most > room) or held + rest.least < floor:
                return False
            held += rest.change
        if not waiting:
            return True
        rest = self._rest(d, self._all(d))
        last = held + (waiting - 1) * rest.change
        return (room is None or max(held, last) + rest.most <= room) and min(held, last) + rest.least >= floor

    def _all(self, d: int) -> int:
        return (1 << len(self._own[d])) - 1

    def run(self, b: int, n: int) -> None:
        for d, _, change in self.whole.uses[b]:
            self.held[d] += change
            if not self._watched[d]:
                continue
            left = self._left[d]
            if n not in left:
                self._begun[d] += 1
            left[n] = left.get(n, self._all(d)) & ~self._bit[d][b]
            if not left[n]:
                del left[n]

    def _rest(self, d: int, bits: int) -> Rest:
        rest = self._rests[d].get(bits)
        if rest is None:
            change = most = least = 0
            for b in self._own[d]:
                if bits & self._bit[d][b]:
                    peak, added = next((peak, added) for e, peak, added in self.whole.uses[b] if e == d)
                    most = max(most, change + peak)
                    change += added
                    least = min(least, change)
            rest = self._rests[d][bits] = Rest(change, most, least)
        return rest
