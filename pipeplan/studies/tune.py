"""`plan tune`: which configurations to run, what each run says, and when no other can be faster.

A campaign is a file: the problem, the configurations that the search of `plan configure` lists, and all runs so far.
It is written whole after every change, and one `plan tune` at a time works on it. What runs prove is decided in
`planners/training/deciding.py`; a command is run by `trials.py`. A file holds no command, so that opening somebody
else's runs nothing.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from statistics import median
from typing import Any, get_args

from ..instances.base.checks import check_amount, check_text, check_whole
from ..instances.base.errors import InputError, PipeplanError, UsageError, show, wrong_argument
from ..instances.base.fields import (
    as_list,
    as_number,
    as_object,
    as_whole,
    check_schema,
    checked,
    each,
    join,
    plain,
    read_record,
    require,
    to_record,
)
from ..instances.base.json_file import begins_with, parse_json, read_text, write_json
from ..instances.base.quantities import several
from ..instances.training.kind_functions import training_from_json, training_to_json
from ..instances.training.model import Model
from ..instances.training.plan import Configuration
from ..instances.training.problem import TrainingProblem
from ..instances.training.referee import framework_faults, shape_faults
from ..instances.training.scope import usual_errors
from ..instances.training.words import configuration_from_words, words_of
from ..planners.training import deciding
from ..planners.training.deciding import Question, Trial, Verdict
from ..planners.training.measured import measured_runs
from ..planners.training.proxies import Proxy, is_proxy, smaller
from ..planners.training.runs import Run, check_possible
from .configure.answer import Asked, asked_of, problem_given
from .configure.judge import memory_of_few
from .configure.search import search_configurations
from .trials import FOLDER, Command, Outcome, Process, State, new_folder, outcome_of, start, watch

SCHEMA = "pipeplan.campaign/1"
# The most bytes of a file, entries of its lists, and characters of a text and of what a run said.
MOST_BYTES, MOST_ENTRIES, MOST_WORDS, MOST_SAID = 64 * 2**20, 20_000, 20_000, 2_000
# Runs that fail one after another before a command is taken to be broken.
MOST_FAILURES = 2
# Runs that are made unless something else is asked for, and the seconds that one may take.
USUAL_RUNS, USUAL_LIMIT_S = 12, 3600.0
# The largest logarithm of a factor that all times share.
MOST_COMMON = 3.0


# ---- the file ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that may be the fastest, as the search of `plan configure` found it."""

    plan: Configuration
    seconds: float
    bytes: float
    """Bytes of the fullest rank."""


@dataclass(frozen=True, slots=True)
class Made:
    """A run of a candidate, from before its start on."""

    id: int
    plan: Configuration
    state: State
    name: str = ""
    """The row or the file that it was read from; empty: it was run here."""
    seconds: float | None = None
    peak_bytes: float | None = None
    pid: int | None = None
    born: str | None = None
    """When the process started, as the system tells it: a number that another process has by now is left alone."""
    folder: str | None = None
    """The name of its folder, in the folder of the campaign's runs."""
    started: str | None = None
    ended: str | None = None
    said: str = ""


@dataclass(frozen=True, slots=True)
class Apart:
    """A run that was given and is none of a candidate."""

    name: str
    words: str
    why: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Cheap:
    """A run of fewer layers, on fewer GPUs or with another batch, which says where the cluster lies."""

    name: str
    words: str
    layers: int
    devices: int
    batch: int
    seconds: float

    def of(self, whole: TrainingProblem) -> Proxy:
        """The run as the decision takes it; an error says why it cannot have been made."""
        problem = smaller(whole, self.layers, self.devices, self.batch)
        plan = configuration_from_words(problem, self.words)
        check_possible(problem, plan)
        return Proxy(whole, problem, plan, self.seconds)


@dataclass(frozen=True)
class Campaign:
    """What is asked, which configurations may be the answer, and what was run; checked when it is read."""

    problem: TrainingProblem
    candidates: tuple[Candidate, ...]
    error: float
    """The share that the search allowed times to be wrong by."""
    rho: float
    within: float = 0.02
    common: float = 0.5
    fix: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    undecided: int = 0
    """Choices that the search neither lists nor excludes."""
    most_runs: int = USUAL_RUNS
    command: str | None = None
    """The digest of the last command."""
    runs: tuple[Made, ...] = ()
    proxies: tuple[Cheap, ...] = ()
    apart: tuple[Apart, ...] = ()

    def __post_init__(self) -> None:
        for name in ("within", "rho", "error"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(name, f"is {getattr(self, name):g}", "give a share above 0 and below 1, as 2%")
        if self.candidates and self.rho > self.error:
            listed = f"is {per_cent(self.rho)}, and the list allows for {per_cent(self.error)}"
            raise InputError("rho", listed, "begin a campaign with that rho")
        if not 0 <= self.common < MOST_COMMON:
            raise InputError("common", f"is {self.common:g}", f"give a logarithm from 0 to below {MOST_COMMON:g}")
        if self.most_runs < 1:
            raise InputError("runs", f"is {self.most_runs}", "give a number from 1 on")

    def asking(self, **changes: Any) -> Campaign:
        """The campaign with what is asked for anew; None leaves it as it is."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    @cached_property
    def numbers(self) -> Mapping[Configuration, int]:
        """The number of each candidate by its configuration."""
        return {own.plan: number for number, own in enumerate(self.candidates)}

    @property
    def finished(self) -> tuple[Made, ...]:
        """The runs that ended by themselves or at their limit."""
        return tuple(run for run in self.runs if run.state not in ("started", "interrupted"))

    @property
    def question(self) -> Question:
        plans = tuple(own.plan for own in self.candidates)
        return Question(self.problem, plans, self.within, self.rho, self.common)

    def verdict(self, most: int | None = None) -> Verdict:
        """What the runs prove, or the first so many of them."""
        trials = [self._trial(run) for run in self.finished[:most]]
        return deciding.verdict(self.question, trials, [own.of(self.problem) for own in self.proxies])

    def _trial(self, run: Made) -> Trial:
        """The run as the decision takes it: its peak has the reserve, which no framework counts."""
        peak = None if run.peak_bytes is None else run.peak_bytes + self.problem.reserve_bytes
        return Trial(self.numbers[run.plan], run.state, run.seconds, peak)  # type: ignore[arg-type]

    def with_run(self, run: Made) -> Campaign:
        """The campaign with this run in place of the one with its number, or as a new one."""
        others = tuple(run if own.id == run.id else own for own in self.runs)
        return replace(self, runs=others if run in others else (*others, run))

    @property
    def next_id(self) -> int:
        return 1 + max((run.id for run in self.runs), default=0)

    def to_json(self) -> dict[str, Any]:
        plain_names = [own.name for own in fields(self) if own.name not in ("problem", *LISTS)]
        return {
            "schema": SCHEMA,
            "problem": training_to_json(self.problem),
            **{name: plain(getattr(self, name)) for name in plain_names},
            **{name: [_written(own) for own in getattr(self, name)] for name in LISTS},
        }


LISTS = ("candidates", "runs", "proxies", "apart")
# In files a configuration is its words.
WORDS_OF_PLAN = {"plan": "words"}
AS_WRITTEN = "give the campaign as it was written"


def _written(own: Candidate | Made | Cheap | Apart) -> dict[str, Any]:
    if isinstance(own, Candidate | Made):
        return to_record(own, WORDS_OF_PLAN, plan=words_of(own.plan))
    return to_record(own)


def is_campaign(path: str | os.PathLike[str]) -> bool:
    """Does the file begin like a campaign? Whether it is one, `read_campaign` says."""
    return begins_with(path, SCHEMA)


def read_campaign(path: str | os.PathLike[str]) -> Campaign:
    """The campaign in a file; every field is checked, and nothing is run."""
    try:
        top = as_object("", parse_json(read_text(path, max_bytes=MOST_BYTES), str(path)))
        check_schema(top, (SCHEMA,))
        return _campaign({key: value for key, value in top.items() if key != "schema"})
    except InputError as error:
        raise error if error.file else error.in_file(str(path)) from None


def _campaign(top: Mapping[str, Any]) -> Campaign:
    try:
        problem = training_from_json(require("", top, "problem"))
    except InputError as error:
        raise InputError(join("problem", error.field), error.problem, error.remedy) from None
    plans: dict[str, Configuration] = {}

    def runnable(where: str, value: object) -> Configuration:
        words = _text(where, value)
        try:
            plan = configuration_from_words(problem, words)
        except InputError as error:
            raise InputError(where, f"says {error.field}, which {error.problem}", error.remedy) from None
        for fault in (*shape_faults(problem, plan), *framework_faults(problem, plan)):
            raise InputError(where, f"cannot be run: {str(fault).rstrip('.')}", AS_WRITTEN)
        if words_of(plan) != words or words in plans:
            raise InputError(where, "are written in another way, or stand twice", AS_WRITTEN)
        return plans.setdefault(words, plan)

    def known(where: str, value: object) -> Configuration:
        if not isinstance(value, str) or value not in plans:
            raise InputError(where, "are those of no candidate", AS_WRITTEN)
        return plans[value]

    candidate = partial(read_record, Candidate, names=WORDS_OF_PLAN, plan=runnable, seconds=_amount, bytes=_amount)
    made = partial(
        read_record, Made, names=WORDS_OF_PLAN, plan=known, id=_count, pid=_count, seconds=_amount,
        peak_bytes=_amount, state=_state, name=_text, born=_text, said=_text, folder=_folder, started=_moment,
        ended=_moment,
    )  # fmt: skip
    apart = partial(read_record, Apart, name=_text, words=_text, why=_text, seconds=_amount)

    def cheap(where: str, value: object) -> Cheap:
        own: Cheap = read_record(
            Cheap,
            where,
            value,
            name=_text,
            words=_text,
            layers=_count,
            devices=_count,
            batch=_count,
            seconds=_amount,
        )
        try:
            own.of(problem)
        except PipeplanError as error:
            raise InputError(where, f"cannot have been run ({str(error).rstrip('.')})", AS_WRITTEN) from None
        return own

    campaign: Campaign = read_record(
        Campaign, "", top, problem=lambda where, value: problem, command=_digest, error=as_number,
        rho=as_number, within=as_number, common=as_number, undecided=as_whole, most_runs=as_whole,
        fix=_entries(_text), forbid=_entries(_text), candidates=_entries(candidate), runs=_entries(made),
        proxies=_entries(cheap), apart=_entries(apart),
    )  # fmt: skip
    if not campaign.candidates:
        raise InputError("candidates", "are none", "start the campaign anew with plan tune MODEL")
    if len({run.id for run in campaign.runs}) < len(campaign.runs):
        raise InputError("runs", "have an id twice", "give each run an id of its own")
    for run in campaign.runs:
        if (run.state == "measured") != (run.seconds is not None):
            raise InputError(f"runs: run {run.id}", f"is {run.state}, and its seconds say otherwise", AS_WRITTEN)
    return campaign


def _entries(read: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    def entries(where: str, value: object) -> tuple[Any, ...]:
        if len(as_list(where, value)) > MOST_ENTRIES:
            raise InputError(where, f"has more than {MOST_ENTRIES} entries", "give fewer")
        return each(read)(where, value)

    return entries


_text = checked(partial(check_text, longest=MOST_WORDS))
_amount = checked(check_amount)
_count = checked(partial(check_whole, most=2**31))


def _matching(pattern: re.Pattern[str], where: str, value: object) -> str:
    if not pattern.fullmatch(_text(where, value)):
        raise InputError(where, f"is {show(value)}", AS_WRITTEN)
    return str(value)


_folder = partial(_matching, FOLDER)
_digest = partial(_matching, re.compile("[0-9a-f]{64}"))
_state = partial(_matching, re.compile("|".join(get_args(State))))


def _moment(where: str, value: object) -> str:
    try:
        return datetime.fromisoformat(_text(where, value)).astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        raise InputError(where, f"is {show(value)}", "give a time, as 2026-01-31T12:00:00+00:00") from None


def moment() -> str:
    """The time of day, as files have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def writable(text: str) -> str:
    """What somebody else has said, as a text that can be written to a file and read again."""
    return text.encode("utf-8", "replace").decode()[:MOST_SAID]


# ---- who works on it -----------------------------------------------------------------------------------


class Desk:
    """A campaign and the file to which each change is written at once; without a path nothing is kept."""

    def __init__(self, campaign: Campaign, path: str | None = None) -> None:
        self.campaign, self.path = campaign, path

    def put(self, campaign: Campaign) -> None:
        self.campaign = campaign
        if self.path is not None:
            write_json(self.path, campaign.to_json())

    @property
    def runs_folder(self) -> str:
        assert self.path is not None, "asked of a campaign with a file"
        return os.path.abspath(self.path) + ".runs"


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Refuse to begin while another process works on the campaign; a killed one holds nothing."""
    if os.name == "nt":
        raise UsageError("A campaign needs file locks, which Windows does not have; use WSL (docs/start.md).")
    import fcntl

    lock = f"{os.path.realpath(path)}.lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        reason = f"cannot be locked ({error.strerror})"
        raise InputError("file", reason, "choose a folder that you may write to", path) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.exists(lock) or os.stat(lock).st_ino != os.fstat(descriptor).st_ino:
            raise BlockingIOError  # who had it before has removed it
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(f"Another plan tune works on {path}; wait for it, or end it with Ctrl-C.") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock)
        os.close(descriptor)


# ---- the beginning -------------------------------------------------------------------------------------


def campaign_of(
    problem: TrainingProblem,
    asked: Asked,
    rho: float | None,
    time_limit_s: float | None,
    heard: Callable[[Any], None],
) -> Campaign:
    """A campaign without runs: the list of `plan configure`."""
    rho = usual_errors(problem).form if rho is None else rho
    known = Campaign(problem, (), asked.error, rho, fix=asked.fixed, forbid=asked.forbidden)
    asked = replace(asked, error=max(asked.error, known.rho))  # the list allows for what rho allows
    report = search_configurations(problem, asked, time_limit_s, heard)
    found = {own.plan: own.seconds for own in (*report.listed, *filter(None, (report.best,)))}
    if not found:
        raise UsageError("No configuration fits or may fit; plan configure says what the nearest one lacks.")
    candidates = tuple(
        Candidate(plan, seconds, max(rank.bytes for rank in memory_of_few(problem, plan)))
        for plan, seconds in sorted(found.items(), key=lambda pair: pair[1])[:MOST_ENTRIES]
    )
    undecided = len(report.unlisted) + report.undecided
    return replace(known, candidates=candidates, error=asked.error, undecided=undecided)


# ---- runs that were made elsewhere -----------------------------------------------------------------------


def with_measured(campaign: Campaign, paths: Sequence[str]) -> tuple[Campaign, list[str]]:
    """The campaign with the runs in tables and logs, and a sentence on each that is none of it, or known already."""
    told: list[str] = []
    problem = campaign.problem
    for path in paths:
        for run in measured_runs(path, problem):
            name = f"{os.path.basename(path)}, {run.name}" if run.name != os.path.basename(path) else run.name
            came = run.outcome, writable(name), run.seconds, run.peak_bytes
            told += [note for note in run.told if note not in told]
            why = _why_apart(campaign, run)
            cheap = _cheap(problem, run, name)
            if cheap is not None and cheap in campaign.proxies:
                told.append(f"{name} is in the campaign already.")
            elif cheap is not None:
                told.append(f"{name} is a proxy ({proxy_in_words(problem, run.problem)}): only its time counts.")
                campaign = replace(campaign, proxies=(*campaign.proxies, cheap))
            elif why:
                own = Apart(name, words_of(run.plan), why, run.seconds)
                told.append(f"{name} is not used: {why}.")
                if own not in campaign.apart:
                    campaign = replace(campaign, apart=(*campaign.apart, own))
            elif run.outcome == "measured" and run.seconds is None:
                told.append(f"{name} has no time, so it is ignored.")
            elif (run.plan, *came) in ((m.plan, m.state, m.name, m.seconds, m.peak_bytes) for m in campaign.runs):
                told.append(f"{name} is in the campaign already.")
            else:
                campaign = campaign.with_run(Made(campaign.next_id, run.plan, *came, ended=moment()))
    return campaign, told


def _why_apart(campaign: Campaign, run: Run) -> str:
    """Why a run is none of a candidate; empty where it is one."""
    ours, theirs = (training_to_json(problem) for problem in (campaign.problem, run.problem))
    other = [key for key in ours | theirs if ours.get(key) != theirs.get(key)]
    if other:
        return f"it is a run of another problem ({', '.join(other)})"
    return "" if run.plan in campaign.numbers else f"{words_of(run.plan)} is not a candidate of this campaign"


def _cheap(whole: TrainingProblem, run: Run, name: str) -> Cheap | None:
    """The run as a proxy; None: it has no time, or is one of this problem or of quite another."""
    if run.seconds is None or not is_proxy(whole, run.problem):
        return None
    layers, devices, batch = run.problem.model.layers, run.problem.devices, run.problem.batch
    return Cheap(writable(name), words_of(run.plan), layers, devices, batch, run.seconds)


def proxy_in_words(whole: TrainingProblem, problem: TrainingProblem) -> str:
    """In what a proxy differs."""
    layers, devices, batch = problem.model.layers, problem.devices, problem.batch
    words = (
        several(layers, "layer") * (layers != whole.model.layers),
        several(devices, "GPU") * (devices != whole.devices),
        several(batch, "sequence") * (batch != whole.batch),
    )
    return ", ".join(filter(None, words))


# ---- one run after another -----------------------------------------------------------------------------


# Makes one run of a configuration and writes it down, before it starts and after it ends.
Runner = Callable[[Desk, Configuration], Made]


def go_on(
    desk: Desk, runner: Runner, told: Callable[[Campaign, Verdict, Verdict | None], None]
) -> tuple[Verdict, str | None]:
    """Run what decides most until the fastest is certain, or the runs are used up; the second says why it stopped.

    `told` is called after every run with what was known before it.
    """
    verdict = desk.campaign.verdict()
    told(desk.campaign, verdict, None)
    failures = 0
    while not verdict.certified and verdict.next is not None:
        count, most = len(desk.campaign.finished), desk.campaign.most_runs
        if count >= most:
            return verdict, f"{several(count, 'run')} of {most} done; --runs {2 * most} allows more"
        made = runner(desk, desk.campaign.candidates[verdict.next].plan)
        if made.state == "interrupted":
            return verdict, f"run {made.id} was not measured: {made.said}"
        verdict, before = desk.campaign.verdict(), verdict
        told(desk.campaign, verdict, before)
        failures = failures + 1 if made.state == "failed" else 0
        if failures == MOST_FAILURES and not verdict.certified:
            failed = f"{failures} runs failed one after another"
            return verdict, f"{failed}; fix the command, and use --retry to run them again"
    return verdict, None if verdict.certified else "no run that is left would say more"


def settled(desk: Desk, made: Made, outcome: Outcome) -> Made:
    """The run as it ended, written down."""
    said = writable(outcome.said)
    made = replace(
        made, state=outcome.state, said=said, seconds=outcome.seconds, peak_bytes=outcome.peak_bytes, ended=moment()
    )
    desk.put(desk.campaign.with_run(made))
    return made


@dataclass(frozen=True)
class CommandRunner:
    """Runs a command of the user's for each configuration."""

    command: Command
    limit_s: float | None = USUAL_LIMIT_S
    heard: Callable[[Made, str], None] = field(default=lambda made, line: None)
    """Is told the last line of a run's output while it runs."""

    def __call__(self, desk: Desk, plan: Configuration) -> Made:
        number, parent = desk.campaign.next_id, desk.runs_folder
        folder = new_folder(parent, number)
        process, go = start(self.command.of(desk.campaign.problem, plan, folder), folder)
        made = Made(
            number, plan, "started", "", None, None, process.pid, process.born, os.path.basename(folder), moment()
        )
        desk.put(replace(desk.campaign.with_run(made), command=self.command.digest))
        go()
        return self._wait(desk, made, self.limit_s)

    def resume(self, desk: Desk) -> list[Made]:
        """Wait for runs that an earlier process has started and not seen end, or take what they left."""
        return [self._resumed(desk, made) for made in desk.campaign.runs if made.state == "started"]

    def _resumed(self, desk: Desk, made: Made) -> Made:
        since = datetime.fromisoformat(made.started or moment())
        gone = max((datetime.now(UTC) - since).total_seconds(), 0.0)
        return self._wait(desk, made, None if self.limit_s is None else max(self.limit_s - gone, 0.0))

    def _wait(self, desk: Desk, made: Made, limit_s: float | None) -> Made:
        folder = os.path.join(desk.runs_folder, made.folder or "")
        process = Process(made.pid or 0, made.born or "?")
        try:
            at_limit = watch(process, folder, limit_s, partial(self.heard, made))
        except KeyboardInterrupt:
            settled(desk, made, Outcome("interrupted", "Ctrl-C ended it"))
            raise
        return settled(desk, made, outcome_of(desk.campaign.problem, made.plan, folder, at_limit, self.limit_s))


@dataclass(frozen=True)
class FunctionRunner:
    """Calls a function of the user's for each configuration."""

    function: Callable[[str, Configuration], float]

    def __call__(self, desk: Desk, plan: Configuration) -> Made:
        made = Made(desk.campaign.next_id, plan, "started", started=moment())
        desk.put(desk.campaign.with_run(made))
        try:
            outcome = self._call(desk.campaign.problem, plan)
        except BaseException:
            settled(desk, made, Outcome("interrupted", "it was interrupted"))
            raise
        return settled(desk, made, outcome)

    def _call(self, problem: TrainingProblem, plan: Configuration) -> Outcome:
        try:
            seconds = self.function(words_of(plan), plan)
        except MemoryError:
            return Outcome("out of memory", "the function raised MemoryError")
        except Exception as error:  # a run that fails is a result, too
            return Outcome("failed", f"the function raised {type(error).__name__}: {error}")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
            remedy = "return the seconds of an iteration, or raise MemoryError"
            raise InputError("run", f"returned {show(seconds)}", remedy)
        Run(problem, plan, float(seconds), words_of(plan)).check_plausible(by_hand=True)
        return Outcome("measured", "the function returned it", float(seconds))


# ---- what is said --------------------------------------------------------------------------------------


def shortest_words(problem: TrainingProblem, plan: Configuration) -> str:
    """The words of a configuration without those that follow from the others and from defaults."""
    words = words_of(plan).split()
    for word in tuple(words):
        fewer = [other for other in words if other != word]
        try:
            same = configuration_from_words(problem, " ".join(fewer)) == plan
        except InputError:
            continue
        words = fewer if same else words
    return " ".join(words) or "only data parallelism"


def certificate(campaign: Campaign, verdict: Verdict) -> str | None:
    """One sentence for a design document; None where nothing is certified."""
    if not verdict.certified or verdict.best is None:
        return None
    best, problem = campaign.candidates[verdict.best].plan, campaign.problem
    count = len(campaign.finished)
    left = f" ({several(campaign.undecided, 'choice')} that the search left undecided are not counted)"
    left = left if campaign.undecided else ""
    return (
        f"{problem.model.name} on {problem.devices} {problem.gpu.name} with {problem.framework}: "
        f"{shortest_words(problem, best)} takes {best_seconds(campaign, best):.4g} s per iteration, and "
        f"{several(count, 'run')} {'prove' if count > 1 else 'proves'} that none of the {len(campaign.candidates)} "
        f"configurations within {per_cent(list_share(campaign))} of the predicted best{left} is faster by more than "
        f"{per_cent(campaign.within)}, if each of their times is right within {per_cent(verdict.rho)} after fitting."
    )


def best_seconds(campaign: Campaign, plan: Configuration) -> float:
    """The median of the seconds that were measured of a configuration, by which the verdict is made."""
    return median(run.seconds for run in campaign.finished if run.plan == plan and run.seconds is not None)


def per_cent(share: float) -> str:
    return f"{100 * share:.3g} %"


def list_share(campaign: Campaign) -> float:
    """How much slower than the best one a listed configuration is at most, by prediction."""
    return (1 + campaign.error) / (1 - campaign.error) - 1


# ---- from Python ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuned:
    """What `tune` found: the campaign with its runs, and what they prove."""

    campaign: Campaign
    verdict: Verdict
    stopped: str | None
    """Why it ended without a certificate."""

    @property
    def best(self) -> Configuration | None:
        """The fastest configuration that was run."""
        return None if self.verdict.best is None else self.campaign.candidates[self.verdict.best].plan

    @property
    def certificate(self) -> str | None:
        return certificate(self.campaign, self.verdict)


def tune(
    model: str | os.PathLike[str] | Model | TrainingProblem,
    devices: str | None = None,
    *,
    run: Callable[[str, Configuration], float],
    sequence: int | None = None,
    batch: int | None = None,
    fix: Sequence[str] = (),
    forbid: Sequence[str] = (),
    runs: int = USUAL_RUNS,
    within: float = 0.02,
    rho: float | None = None,
    output: str | os.PathLike[str] | None = None,
    time_limit_s: float | None = None,
    **more: Any,
) -> Tuned:
    """Run the configurations that decide which one is the fastest, as `plan tune` does, by a function of yours.

    Parameters
    ----------
    model : str, PathLike, Model or TrainingProblem
        A packaged model's name, a `config.json`, a profile or a table; or a whole problem, as `load` returns it.
    devices : str, optional
        The GPUs, as in "64xh100-80gb". None, here and below: `model` is a whole problem, which gives them.
    run : callable
        Is called with the words and the object of a configuration, and returns the seconds of one iteration.
        `MemoryError` says that it does not fit, which is a result; any other exception, that the run failed.
    sequence : int, optional
        Tokens of a sequence; None for a whole problem.
    batch : int, optional
        Sequences between two updates; None for a whole problem.
    fix : sequence of str
        Consider only configurations with all of these values: ["tensor=4"].
    forbid : sequence of str
        Consider no configuration with any of these values.
    runs : int
        The most runs.
    within : float
        The share by which the answer may be slower than the fastest.
    rho : float, optional
        The share by which the form of the model may be wrong for one configuration. None: what a fit leaves on
        published runs, 10 % where there are none.
    output : str or PathLike, optional
        The file of the campaign, which goes on if it is there. None: nothing is kept.
    time_limit_s : float, optional
        Seconds that the search may take. None: no limit.
    more : str, float or bool
        Further fields of the problem, as in `configure`.

    Returns
    -------
    Tuned
        `best`, the fastest configuration that was run; `certificate`, a sentence where it is certain; all runs.

    Raises
    ------
    InputError
        A model, a cluster or a share cannot have a value that was given, or `run` returned no time.
    UsageError
        There is no such model or GPU, or nothing can fit.
    """
    if not callable(run):
        raise wrong_argument("run", run, "a function", "give one that returns the seconds of an iteration")
    problem = model if isinstance(model, TrainingProblem) else problem_given(model, devices, sequence, batch, more)
    asked = asked_of(problem, fix=fix, forbid=forbid)
    path = None if output is None else os.fspath(output)
    with nullcontext() if path is None else alone(path):
        if path is not None and os.path.exists(path):
            campaign = resumed(read_campaign(path), problem)
        else:
            campaign = campaign_of(problem, asked, rho, time_limit_s, lambda record: None)
        desk = Desk(campaign.asking(within=within, rho=rho, most_runs=runs), path)
        desk.put(desk.campaign)
        verdict, stopped = go_on(desk, FunctionRunner(run), lambda campaign, verdict, before: None)
    return Tuned(desk.campaign, verdict, stopped)


def resumed(campaign: Campaign, problem: TrainingProblem) -> Campaign:
    """A campaign of this problem; calls of a function that an earlier process did not finish were interrupted."""
    if campaign.problem != problem:
        raise UsageError("The campaign in the file is one of another problem; name another file.")
    for made in campaign.runs:
        if made.state == "started" and made.pid is None:
            campaign = campaign.with_run(replace(made, state="interrupted", said="its process ended before it"))
    return campaign
