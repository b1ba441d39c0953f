"""Plausible mistakes on the command line: what somebody types, and what the answer has to propose.

Words in braces are files that the test makes. Each row: the words, a part of the answer that names the place, and the
spelling that the answer proposes, which the test puts in the place of the mistake where it is an option or a name.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """`wrong` is the word that is mistaken; `right` what the answer has to propose in its place, None: no word."""

    words: str
    wrong: str
    right: str | None
    place: str = ""
    """What the answer has to name; empty: the mistaken word."""


def misspelt(beginning: str, wrong: str, right: str | None, place: str = "") -> Mistake:
    """A wrong word at the end of a command line."""
    return Mistake(f"{beginning} {wrong}".strip(), wrong, right, place)


# By what they are taken for: wrong words, each with the right one.
COMMANDS = {
    "optimise": "solve", "optimize": "solve", "slove": "solve", "solver": "solvers", "solv": "solve",
    "Solve": "solve", "verfiy": "verify", "check": "verify", "validate": "verify", "veryfy": "verify",
    "shwo": "show", "view": "show", "plot": "show", "draw": "show", "memroy": "memory", "mem": "memory",
    "paretto": "pareto", "sensitivty": "sensitivity", "sensitivities": "sensitivity", "simulte": "simulate",
    "simulation": "simulate", "explor": "explore", "schedual": "schedule", "scedule": "schedule",
    "schedules": "schedule", "exprot": "export", "expot": "export", "covert": "convert", "conver": "convert",
    "genrate": "generate", "gen": "generate", "generat": "generate", "comapre": "compare",
    "benchmark": "compare", "reprot": "report", "warmup": "warm-up", "warm_up": "warm-up",
    "instance": "instances", "formulation": "formulations", "planner": "planners", "configur": "configure",
    "config": "configure", "tune": "configure", "imports": "import", "list": "instances", "frobnicate": None,
}  # fmt: skip

OPTIONS = {
    "--planer": "--planner", "--planners": "--planner", "--Planner": "--planner",
    "--formulaton": "--formulation", "--formulations": "--formulation", "--solvers": "--solver",
    "--slover": "--solver", "--time_limit": "--time-limit", "--timelimit": "--time-limit",
    "--timeout": "--time-limit", "--time-limits": "--time-limit", "--max-time": "--time-limit",
    "--outptu": "--output", "--out": "--output", "--outfile": "--output", "--save": "--output",
    "--ouput": "--output", "--gpus": "--devices", "--gpu": "--devices", "--num-gpus": "--devices",
    "--device": "--devices", "--accelerators": "--devices", "--workers": "--devices",
    "--world-size": "--devices", "--memroy": "--memory", "--mem": "--memory", "--vram": "--memory",
    "--memory_limit": "--memory-limit", "--bandwith": "--bandwidth", "--band-width": "--bandwidth",
    "--bw": "--bandwidth", "--thread": "--threads", "--cores": "--threads", "--num-threads": "--threads",
    "--seeds": "--seed", "--random-seed": None, "--gpa": "--gap", "--mip-gap": "--gap", "--tolerance": "--gap",
    "--verbos": "--verbose", "--crosscheck": "--cross-check", "--cross_check": "--cross-check",
    "--warmstart": "--warm-start", "--warm_start": "--warm-start", "--pictures": "--picture",
    "--plot": "--picture", "--non-contigous": "--non-contiguous", "--noncontiguous": "--non-contiguous",
    "--non_contiguous": "--non-contiguous", "--microbatch": "--micro-batch",
    "--micro-batch-size": "--micro-batch", "--batch-size": "--batch", "--batchs": "--batch",
    "--optimiser": "--optimizer", "--inflight": "--in-flight", "--tensor-paralell": "--tensor-parallel",
    "--tensor_parallel": "--tensor-parallel", "--efficency": "--efficiency", "--seq-len": "--sequence",
    "--sequence-length": "--sequence", "--progres": "--progress", "--export_model": "--export-model",
    "--jason": "--json", "--help-al": "--help-all", "--frobnicate": None, "--cpu": "--cpus",
    "--time-units": "--time-unit",
}  # fmt: skip

MICRO_BATCHES = ("--microbatches", "--micro_batches", "--num-microbatches", "--micro-batchs", "--chunks")

NAMES = {
    "solve": {
        "tiny-chian": "tiny-chain", "tiny_chain": "tiny-chain", "tinychain": "tiny-chain",
        "Tiny-Chain": "tiny-chain", "bert-larg": "bert-large-inference",
        "bert_large_inference": "bert-large-inference", "bert": "bert-base-operators", "golden4": "golden-4",
        "golden-5": "golden-4", "tiny-stage": "tiny-stages", "memory-tigth": "memory-tight",
        "resnet50-infer": "resnet50-inference", "gnmt": "gnmt-training", "figure4": "figure-4",
        "v-shape": "v-shape-4", "zero-bubble": "zero-bubble-32x16", "qwertyuiop": None,
    },
    "solve tiny-chain --planner": {
        "gredy": "greedy", "brute_force": "brute-force", "bruteforce": "brute-force",
        "local_search": "local-search", "lsn": "lns", "pipe-dream": "pipedream", "linear_dp": "linear-dp",
        "one_device": "one-device", "xyzzy": None,
    },
    "solve tiny-chain --formulation": {
        "ip-tarnavski": "ip-tarnawski", "tarnawski": None, "ip_tarnawski": "ip-tarnawski",
        "ip-tarnawsky": "ip-tarnawski", "xyzzy": None,
    },
    "solve tiny-chain --formulation ip-tarnawski --solver": {
        "higs": "highs", "HiGHS": "highs", "cpsat": "cp-sat", "cp_sat": "cp-sat", "CP-SAT": "cp-sat",
        "spic": "scip", "gurob": "gurobi", "xyzzy": None,
    },
    "solve tiny-chain --formulation ip-tarnawski --variant": {
        "strng": "strong", "plane": "plain", "Plain": "plain",
    },
    "solve tiny-chain --objective": {"maxload": "max-load", "max_load": "max-load", "g-pipe": "gpipe"},
    "solve tiny-chain --progress": {"jsn": "json", "Json": "json", "non": "none"},
    "convert tiny-chain -o x.json --to": {"publised": "published", "Own": "own"},
    "generate": {"layred": "layered", "vgg61": "vgg16", "chian": "chain"},
    "formulations": {"ip-tarnavski": "ip-tarnawski", "ip_tarnawski": "ip-tarnawski"},
    "planners": {"gredy": "greedy", "brute_force": "brute-force"},
    "compare --suite": {"tarnawsky": "tarnawski-table1", "xyzzy": None},
    "generate vgg16 --hardware": {"a100-40g": "a100-40gb", "a10g": None},
    "generate vgg16 --kind": {"stagin": "staging", "Placement": "placement"},
}  # fmt: skip

# GPUs, as `plan configure` and `plan generate` take them: what is no misspelling gets the list.
GPUS = {"8xa10g": None, "8xh1000": None, "8xa100-80bg": "a100-80gb", "8xhh100-80gb": "h100-80gb", "8xtpu-v4": None}

# Texts where a number or a quantity belongs, with the quantity that the answer writes.
QUANTITIES = {
    "--devices": {"two": "2", "four": "4", "Eight": "8", "many": None, "2.5": None},
    "--threads": {"two": "2", "2.5": None, "all": None},
    "--seed": {"one": "1", "x": None},
    "--memory": {
        "8gb": "8GB", "8gib": "8GiB", "8G": "8GB", "8Gi": "8GiB", "8Go": "8GB", "8Gio": "8GiB", "lots": None,
        "-8GB": None, "8,5GB": None, "1e400GB": None,
    },
    "--memory-limit": {"8gb": "8GB", "8M": "8MB"},
    "--time-limit": {"30seconds": "30s", "5minutes": "5min", "1hr": "1h", "30S": "30s", "-3s": None, "soon": None},
    "--gap": {"-1": None, "two": None, "1,5%": None, "150%": None},
    "--abs-gap": {"5MS": "5ms", "5msec": "5ms"},
}  # fmt: skip

# Two words in place of one, and words in place of options.
APART = (
    Mistake("solve tiny-chain --memory 8 GB", "8 GB", "8GB", "GB"),
    Mistake("solve tiny-chain --memory 8 GiB", "8 GiB", "8GiB", "GiB"),
    Mistake("solve tiny-chain --time-limit 30 s", "30 s", "30s", "'s'"),
    Mistake("solve tiny-chain --gap 1 %", "1 %", "1%", "%"),
    Mistake("solve tiny-chain devices=4", "devices=4", "--devices 4"),
    Mistake("solve tiny-chain planner=dp", "planner=dp", "--planner dp"),
    Mistake("solve tiny-chain time-limit=5s", "time-limit=5s", "--time-limit 5s"),
    Mistake("solve tiny-chain greedy", "greedy", None),
    Mistake("solve tiny-chain --devices", "--devices", None),
    Mistake("solve tiny-chain --planner", "--planner", None),
    Mistake("verify tiny-chain", "PLAN", None, "PLAN"),
    Mistake("verify", "INSTANCE", None, "INSTANCE"),
    Mistake("convert tiny-chain", "--output", None, "--output"),
    Mistake("solve tiny-chain --json=yes", "--json", None, "--json"),
    Mistake("report", "RESULT", None, "RESULT"),
)

# Files in the place of others: the file has to be named.
FILES = (
    Mistake("verify {plan} tiny-chain", "{plan}", None, "plan.json"),
    Mistake("verify tiny-chain {problem}", "{problem}", None, "problem.json"),
    Mistake("show tiny-chain {problem}", "{problem}", None, "problem.json"),
    Mistake("solve {plan}", "{plan}", None, "plan.json"),
    Mistake("solve {text}", "{text}", None, "text.txt"),
    Mistake("solve {folder}", "{folder}", None, "folder"),
    Mistake("report {problem}", "{problem}", None, "problem.json"),
    Mistake("export {problem} --to torch", "{problem}", None, "problem.json"),
    Mistake("verify golden-4 {plan}", "{plan}", None, "plan"),
    Mistake("simulate golden-4 {plan} --micro-batches 2", "{plan}", None, "plan"),
    Mistake("solve tiny-chain --warm-start {problem}", "{problem}", None, "problem.json"),
    Mistake("solve tiny-chain --picture x.jpg", "x.jpg", None, "x.jpg"),
    Mistake("solve tiny-chain -o nowhere/x.json", "nowhere/x.json", None, "nowhere"),
    Mistake("solve tiny-chain -o {folder}", "{folder}", None, "folder"),
    Mistake("solve problem.jsn", "problem.jsn", "problem.json"),
    Mistake("import table {text} -o p.json", "{text}", None, "text.txt"),
)

MISTAKES = (
    *(misspelt("", wrong, right) for wrong, right in COMMANDS.items()),
    *(misspelt("solve tiny-chain", wrong, right) for wrong, right in OPTIONS.items()),
    *(misspelt("schedule tiny-stages {plan}", wrong, "--micro-batches") for wrong in MICRO_BATCHES),
    *(misspelt(begin, wrong, right) for begin, names in NAMES.items() for wrong, right in names.items()),
    *(
        Mistake(f"configure llama-3-8b --devices {wrong} --sequence 8192 --batch 64", wrong, right, wrong[2:])
        for wrong, right in GPUS.items()
    ),
    *(
        Mistake(f"solve tiny-chain {flag} {wrong}", wrong, right, flag)
        for flag, texts in QUANTITIES.items()
        for wrong, right in texts.items()
    ),
    *APART,
    *FILES,
)
