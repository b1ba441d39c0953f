"""(22) and (31)-(36) for the CP-SAT model: what a GPU holds while each of its tasks runs fits its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cp_pattern import Node, PatternModel

# Number of steps of the area rows: exact products of times and sizes would overflow the solver's integers.
AREA_STEPS = 2**36


def add_memory(pattern: PatternModel) -> None:
    """Add the rows of memory to the model of a pattern."""
    _Memory(pattern).add()


class _Memory:
    """Sums of copies are taken over all rows: each batch of the pattern keeps copies of its own.

    Terms are listed and added once: the solver's expressions change in place under `+=`, whoever else holds them.
    """

    def __init__(self, pattern: PatternModel) -> None:
        self.pattern = pattern
        self.chain = pattern.chain
        self.kept = [i for i in pattern.layers if self.chain.activations[i]]
        waiting = range(1, self.chain.tasks) if not self.chain.inputs_only else range(0)
        self.waiting = [e for e in waiting if self.chain.activations[e]]
        self.standing = [self._standing(i) for i in pattern.layers]
        self.copies = {(i, m): self._copies(i, m) for i in pattern.layers for m in self.kept}

    def add(self) -> None:
        for node in self.pattern.nodes:
            layer = self.chain.layer_of(node[1])
            terms = [self.standing[layer], self.chain.own_size(node[1])]
            terms += [
                self.chain.activations[m] * (self.copies[layer, m] + self._started(m, node)) for m in self.kept
            ]
            terms += [self.chain.activations[e] * self._direct(e, node) for e in self.waiting]
            terms += self._running(node)
            self.pattern.model.add(sum(terms) <= self.chain.memory)
        for layer in self.pattern.layers:
            self._area(layer)

    def _standing(self, i: int) -> Any:
        """(33)-(35): what the GPU of layer i holds all the time, its weights and both slots of each of its borders."""
        pattern, chain = self.pattern, self.chain
        terms = [chain.weights[j] * pattern.together(i, j) for j in pattern.layers]
        for border in range(1, chain.layers):
            size = 0 if chain.inputs_only else chain.border_size(border)
            if size:
                terms.append(size * self._at_border(i, border))
        return sum(terms)

    def _at_border(self, i: int, border: int) -> Any:
        """Literal: the GPU of layer i is at one side of the border, and another GPU at the other side."""
        pattern = self.pattern
        left, right = pattern.together(i, border - 1), pattern.together(i, border)
        if i in (border - 1, border):
            return pattern.together(border - 1, border).negated()
        one = pattern.flag()
        pattern.model.add_bool_or([one, left.negated(), right])
        pattern.model.add_bool_or([one, left, right.negated()])
        return one

    def _copies(self, i: int, m: int) -> Any:
        """(32): by how many batches B of layer m is behind F, in all rows, as far as it is on the GPU of layer i."""
        pattern = self.pattern
        behind = sum(pattern.batches_behind(m))
        if i == m:
            return behind
        most = self._most_copies(m)
        number = pattern.model.new_int_var(0, most, "")
        pattern.require(number >= behind, pattern.together(i, m))
        return number

    def _most_copies(self, m: int) -> int:
        """Upper bound on the copies of layer m, by the stages between F and B and by the GPU's memory."""
        chain, rows = self.chain, len(self.pattern.rows)
        assert chain.memory is not None
        stages = sum(len(self.pattern.stages[0, e]) for e in range(m + 1, chain.backward(m) + 1))
        if chain.timeless[m] or chain.timeless[chain.backward(m)]:
            return rows * stages  # it may be there for no time at all, so its size says nothing
        room = chain.memory - chain.weights[m] - chain.own_size(m)
        return max(0, min(rows * stages, room // chain.activations[m] + rows))

    def _started(self, m: int, at: Node) -> Any:
        """Lemma 10: rows in which F of layer m comes before a task, less those in which B does."""
        pattern, last = self.pattern, self.chain.backward(m)
        started = [pattern.begun((r, m), at) for r in pattern.rows if (r, m) != at or at in pattern.timeless]
        return sum(started) - sum(pattern.done((r, last), at) for r in pattern.rows)

    def _running(self, at: Node) -> list[Any]:
        """What other tasks of the GPU hold while they run, where this one takes no time and may be within them."""
        pattern = self.pattern
        if at not in pattern.timeless:
            return []
        others = [(x, self.chain.current_size(x[1])) for x in pattern.nodes if x not in pattern.timeless]
        return [size * (pattern.begun(x, at) - pattern.done(x, at)) for x, size in others if size]

    def _direct(self, e: int, at: Node) -> Any:
        """(22): rows in which what task e - 1 wrote waits for task e while another task runs."""
        timeless = self.pattern.timeless
        terms = []
        for r in self.pattern.rows:
            a, b = (r, e - 1), (r, e)
            if timeless & {a, b, at}:
                terms.append(self._counted(a, b, at))
            elif at not in (a, b):
                terms.append(self.pattern.waits(a, b, at))
        return sum(terms)

    def _counted(self, a: Node, b: Node, at: Node) -> Any:
        """What `_direct` counts in literals, counted in numbers of batches, since one of the three tasks takes no
        time."""
        pattern = self.pattern
        layers = [self.chain.layer_of(node[1]) for node in (a, b, at)]
        number = pattern.model.new_int_var(0, 2, "")
        shifts = sum(pattern.next_shifts(a, b))
        together = [pattern.together(layers[0], layers[1]), pattern.together(layers[0], layers[2])]
        pattern.require(number >= shifts + pattern.done(a, at) - pattern.begun(b, at), *together)
        return number

    def _area(self, i: int) -> None:
        """Little's law on the GPU of layer i, at the longest period that is asked for."""
        pattern, chain = self.pattern, self.chain
        assert chain.memory is not None
        total = max(1, pattern.ceiling * chain.memory)
        unit = max(1, total // AREA_STEPS)
        batches = len(pattern.rows)
        used = []
        for m in pattern.layers:
            life = chain.elapsed[chain.backward(m) + 1] - chain.elapsed[m]
            of_batch = chain.activations[m] * life + chain.current_area(m)
            area = batches * of_batch + pattern.ceiling * chain.weights[m]
            used.append((area // unit) * pattern.together(i, m))
        if not chain.inputs_only:
            for border in range(1, chain.layers):
                size = pattern.ceiling * chain.border_size(border) // unit
                if size:
                    used.append(size * self._at_border(i, border))
        pattern.model.add(sum(used) <= -(-total // unit))
