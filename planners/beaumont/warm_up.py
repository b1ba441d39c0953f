"""Machine code is made beside the search, which goes on with what needs none."""

from __future__ import annotations

import threading
from collections.abc import Callable

_begun: dict[str, threading.Thread] = {}
_lock = threading.Lock()


def ready(name: str, first_call: Callable[[], object]) -> bool:
    """Has the first call, which compiles or loads the machine code, returned? It is begun here, once per process."""
    with _lock:
        thread = _begun.get(name)
        if thread is None:
            thread = _begun[name] = threading.Thread(target=first_call, name=name)
            thread.start()
    return not thread.is_alive()
