"""`plan warm-up`: compile all inner loops ahead."""

from __future__ import annotations

from ..instances.base import clock
from ..show.console import say_note


def command() -> None:
    """Compile the inner loops of all methods ahead, once on a machine (a minute or two)."""
    from ..planners.run.warm_up import warm_up

    clock.when_compiling(lambda: None)
    warm_up(lambda name: say_note(f"compiling what {name} needs"))
    say_note(f"done: compiling took {clock.seconds_compiling():.0f} s, and is not needed again until an update.")
