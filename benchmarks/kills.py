"""Whatever dies, and whenever: does every run end as the README says?

    python benchmarks/kills.py [--runs 60] [--seed 0]

Runs of `plan solve`, by every exact method in turn, meet a death at a random moment: their workers are killed, their
memory is limited, or the command hears Ctrl-C or SIGTERM. Each run has to end with exit code 0 and a plan that
`plan verify` accepts, with 1 and no plan, or with 130; without a traceback; its --output whole, or what was there
before; no process and no temporary file may be left. Exit code 1: one run ended otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import cycle, islice, product
from pathlib import Path

from pipeplan.planners.registry import EXACT, all_methods, is_formulation

# For every exact method a problem on which it works for seconds, and the options without which it does not.
PROBLEMS = {
    "ip-tarnawski": "bert-large-inference --non-contiguous",
    "ip-tarnawski-latency": "cpu-offload --objective latency",
    "ilp-beaumont": "resnet18-chain",
    "cp-beaumont": "resnet18-chain",
    "mip-piper": "resnet50-stages",
    "cp-graphpipe": "candle-uno-8",
    "cp-schedule": "zero-bubble-4x12 --objective span",
    "ilp-zero-bubble": "zero-bubble-4x12 --objective span",
    "cp-periodic": "v-shape-4",
    "dp": "bert-large-training",
    "brute-force": "tiny-chain --non-contiguous",
    "dp-piper": "gpt2-medium-stages",
    "exact-beaumont": "resnet34-chain",
    "shortest-iteration": "mmt-8",
    "exact-schedule": "zero-bubble-32x16",
    "exact-configuration": "llama-3-70b-64xh100",
}
DEATHS = ("worker", "memory", "SIGINT", "SIGTERM")
FIRST_S, LAST_S = 0.3, 5.0
"""Between which moments a run is hit. Python and the command line have been loaded by the first."""
TIME_LIMIT_S = 6
PATIENCE_S = 120
GRACE_S = 3
OLD = "what was there\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    endings: Counter[tuple[str, int]] = Counter()
    wrong = 0
    print("| method | death | after, s | exit code | result | wrong |\n|---|---|---|---|---|---|")
    for method, death, moment in drawn(arguments.runs, arguments.seed):
        code, words, faults = run(method, death, moment)
        endings[death, code] += 1
        wrong += bool(faults)
        print(f"| {method} | {death} | {moment:.2f} | {code} | {words} | {'; '.join(faults)} |", flush=True)
    print("\n| death | exit code | runs |\n|---|---|---|")
    for (death, code), runs in sorted(endings.items()):
        print(f"| {death} | {code} | {runs} |")
    print(f"\n{endings.total()} runs, {wrong} of them wrong")
    return int(wrong > 0)


def drawn(runs: int, seed: int) -> list[tuple[str, str, float]]:
    """Methods, deaths and moments: all pairs of methods and deaths in random order, again and again."""
    generator = random.Random(seed)
    exact = [entry.name for entry in all_methods() if entry.exact and entry.name != EXACT]
    pairs = list(product(exact, DEATHS))
    generator.shuffle(pairs)
    return [(*pair, generator.uniform(FIRST_S, LAST_S)) for pair in islice(cycle(pairs), runs)]


def run(method: str, death: str, moment: float) -> tuple[int, str, list[str]]:
    """The exit code of one command, how its result says that it ended, and everything that is wrong with it."""
    problem, *options = PROBLEMS[method].split()
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        result, scratch = Path(name, "out", "result.json"), Path(name, "tmp")
        result.parent.mkdir()
        scratch.mkdir()
        result.write_text(OLD)
        asked = ["--formulation" if is_formulation(method) else "--planner", method, *options, "-o", str(result)]
        if death == "memory":
            asked += ["--memory-limit", f"{int(50 + 50 * moment)}MB"]
        command = [sys.executable, "-m", "pipeplan", "solve", problem, *asked, "--time-limit", f"{TIME_LIMIT_S}s"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(scratch)},
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            hit(process, death)
            said = process.communicate(timeout=PATIENCE_S)[1]
        finally:
            process.kill()
        return judged(process.returncode, said, problem, result, scratch)


def hit(process: subprocess.Popen[str], death: str) -> None:
    if death == "worker":
        for worker, stat in proc("stat").items():
            if int(stat.rpartition(b")")[2].split()[1]) == process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
    elif death != "memory" and process.poll() is None:
        process.send_signal(signal.Signals[death])


def proc(name: str) -> dict[int, bytes]:
    """What Linux says of every process that we may read."""
    texts = {}
    for path in Path("/proc").glob(f"[0-9]*/{name}"):
        with contextlib.suppress(OSError):  # it has just ended, or is somebody else's
            texts[int(path.parent.name)] = path.read_bytes()
    return texts


def judged(code: int, said: str, problem: str, result: Path, scratch: Path) -> tuple[int, str, list[str]]:
    """What is on the disk, and what is still alive, is compared with what the exit code promises."""
    faults = []
    text = result.read_text()
    words = "as before"
    if text != OLD:
        facts = json.loads(text)
        words = f"{facts['stop']}, {facts['found']}"
        if facts["verified"] != (code == 0):
            faults.append("exit code and result differ")
    if code not in (0, 1, 130) or (text == OLD and code != 130):
        faults.append("unforeseen exit code: " + said[-300:].replace("\n", " "))
    if code == 0:
        check = [sys.executable, "-m", "pipeplan", "verify", problem, str(result)]
        if subprocess.run(check, capture_output=True).returncode:
            faults.append("no plan that `plan verify` accepts")
    if "Traceback" in said:
        faults.append("a traceback: " + said[said.index("Traceback") - 300 :][:900].replace("\n", " "))
    left = [path.name for folder in (result.parent, scratch) for path in folder.iterdir() if path != result]
    if left:
        faults.append("files are left: " + ", ".join(left))
    if survivors(scratch):
        faults.append("a process is left")
    return code, words, faults


def survivors(scratch: Path) -> bool:
    """Processes of the run are known by its folder for temporary files; they get a moment to notice its end."""
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end:
        if not any(str(scratch).encode() in text for text in proc("environ").values()):
            return False
        time.sleep(0.1)
    return True


if __name__ == "__main__":
    sys.exit(main())
