"""Stays with one run of `plan tune --command` to its end, even where `plan tune` itself is killed.

It is a program of its own that imports nothing of this package: `python supervisor.py PIPE FOLDER MOST_BYTES WORDS...`.
It leads a process group. The command begins only after a byte came through the pipe, which `plan tune` sends once its
file names this process; without that byte nothing runs. What the command prints goes to FOLDER/log, and how it
ended to FOLDER/end. At last the group is ended with whatever the command has left in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

GO = b"g"
# The end of an output that is longer than its limit, which is kept: errors stand there.
TAIL_BYTES = 2**16
TICK_S = 0.05
# The exit code of a command that cannot be started, as shells have it.
NOT_STARTED = 127


def main(pipe: int, folder: str, most_bytes: int, words: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)  # meant for the command, which hears them itself
    if os.read(pipe, 1) != GO:
        return
    os.close(pipe)
    with open(os.path.join(folder, "log"), "xb", buffering=0, opener=_private) as log:
        try:
            command = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            log.write(f"{words[0]}: {error.strerror}\n".encode())
            code = NOT_STARTED
        else:
            code = _copy(command, log, most_bytes)
    unfinished = os.path.join(folder, "end.part")
    with open(unfinished, "xb", opener=_private) as file:
        file.write(str(code).encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, os.path.join(folder, "end"))
    os.killpg(0, signal.SIGKILL)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _copy(command: subprocess.Popen[bytes], log: object, most_bytes: int) -> int:
    """Copy what the command prints until it ends, and return its exit code."""
    assert command.stdout is not None
    output, left, tail, cut = command.stdout.fileno(), most_bytes, b"", 0
    while True:
        ended = command.poll() is not None
        readable = select.select([output], [], [], 0 if ended else TICK_S)[0]
        chunk = os.read(output, 2**16) if readable else b""
        if not chunk:
            if ended:
                break
            if readable:  # the command has closed its output and goes on
                command.wait()
            continue
        with contextlib.suppress(OSError):  # a full disk ends no run
            log.write(chunk[:left])  # type: ignore[attr-defined]
        cut += len(chunk[left:])
        tail = (tail + chunk[left:])[-TAIL_BYTES:]
        left -= len(chunk[:left])
    if tail:
        with contextlib.suppress(OSError):
            log.write(f"\n[{cut - len(tail)} bytes are left out here]\n".encode() + tail)  # type: ignore[attr-defined]
    return command.returncode


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
