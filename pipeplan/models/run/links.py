"""Sending and receiving between ranks: by tag where there are tags (gloo), else in one order for each pair (NCCL).

Without tags the messages from one rank to another are received in the order in which they are sent, which both know
from the layout; each direction of each pair has a channel of its own, so that no direction waits for the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist

from ...instances.timeline.model import Pass
from .layout import Layout, Message


class Links(Protocol):
    """Sends and receives the messages of one rank in one step."""

    sent_bytes: int

    def expect(self, message: Message) -> None:
        """Begin to receive the message, unless that has begun."""

    def take(self, message: Message) -> torch.Tensor:
        """Wait until the message is there, and return its tensor."""
        ...

    def send(self, message: Message, tensor: torch.Tensor) -> None:
        """Begin to send the tensor."""

    def finish(self) -> None:
        """Wait until everything has been sent."""


class _Common:
    """What both ways of sending share; tensors stay alive until they have been sent."""

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.layout, self.device, self.sent_bytes = layout, device, 0
        self._inbox: dict[Message, tuple[torch.Tensor, Any]] = {}
        self._outbox: list[tuple[Any, torch.Tensor]] = []

    def take(self, message: Message) -> torch.Tensor:
        self.expect(message)
        tensor, work = self._inbox.pop(message)
        work.wait()
        return tensor

    def finish(self) -> None:
        for work, _ in self._outbox:
            work.wait()
        self._outbox.clear()

    def expect(self, message: Message) -> None:
        raise NotImplementedError

    def _room(self, message: Message) -> torch.Tensor:
        value = self.layout.values[message.value]
        return torch.empty(value.shape, dtype=getattr(torch, value.dtype), device=self.device)

    def _sending(self, work: Any, tensor: torch.Tensor) -> None:
        self.sent_bytes += tensor.numel() * tensor.element_size()
        self._outbox = [entry for entry in self._outbox if not entry[0].is_completed()]
        self._outbox.append((work, tensor))


class TaggedLinks(_Common):
    """Every message has a tag of its own, so they may arrive in any order."""

    def expect(self, message: Message) -> None:
        if message not in self._inbox:
            room = self._room(message)
            work = dist.irecv(room, self.layout.sender(message), tag=self.layout.tag(message))
            self._inbox[message] = (room, work)

    def send(self, message: Message, tensor: torch.Tensor) -> None:
        tensor = tensor.contiguous()
        work = dist.isend(tensor, self.layout.receiver(message), tag=self.layout.tag(message))
        self._sending(work, tensor)


class OrderedLinks(_Common):
    """Messages between two ranks keep their order."""

    def __init__(self, layout: Layout, device: torch.device, orders: Sequence[Sequence[Pass]], rank: int) -> None:
        super().__init__(layout, device)
        self._groups: dict[tuple[int, int], Any] = {}
        self._coming: dict[int, list[Message]] = {}
        for a in range(len(orders)):
            for b in range(len(orders)):
                messages = layout.channel(orders, a, b) if a != b else []
                if messages:
                    self._groups[a, b] = dist.new_group([a, b])
                if messages and b == rank:
                    self._coming[a] = messages
        self.rank = rank
        self._begin()

    def _begin(self) -> None:
        self._waiting = {sender: list(reversed(messages)) for sender, messages in self._coming.items()}

    def expect(self, message: Message) -> None:
        sender = self.layout.sender(message)
        while message not in self._inbox:
            following = self._waiting[sender].pop()
            room = self._room(following)
            work = dist.irecv(room, sender, group=self._groups[sender, self.rank])
            self._inbox[following] = (room, work)

    def send(self, message: Message, tensor: torch.Tensor) -> None:
        tensor, receiver = tensor.contiguous(), self.layout.receiver(message)
        self._sending(dist.isend(tensor, receiver, group=self._groups[self.rank, receiver]), tensor)

    def finish(self) -> None:
        super().finish()
        self._begin()
