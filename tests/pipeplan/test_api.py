"""The public functions: each says what it takes, and what it does not take ends in a sentence."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from problems.profiles import ROW

import pipeplan
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.files import problem_to_text
from pipeplan.instances.placement.plan import PlacementPlan

CLASSES: dict[str, type] = {
    name: value for name in pipeplan.__all__ if inspect.isclass(value := getattr(pipeplan, name))
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: value for name in pipeplan.__all__ if inspect.isfunction(value := getattr(pipeplan, name))
}


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


# ---- what they say of themselves -----------------------------------------------------------------------


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, value in CLASSES.items():
        for key, member in vars(value).items():
            function = getattr(member, "__func__", member)  # of class methods
            if inspect.isfunction(function) and not key.startswith("_"):
                yield f"{name}.{key}", function


LONG = {name: function for name, function in [*FUNCTIONS.items(), *methods()] if len(parameters(function)) > 2}


def section(text: str, title: str) -> str:
    """What stands below the underlined title, up to the next one."""
    found = re.search(rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=^\w+\n---|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def test_there_are_long_functions_and_methods() -> None:
    assert {"solve", "verify", "load", "save", "simulate", "sensitivity", "Formulation.build"} <= set(LONG)


@pytest.mark.parametrize("name", LONG)
def test_more_than_two_arguments_are_explained_one_by_one(name: str) -> None:
    text = inspect.cleandoc(LONG[name].__doc__ or "")
    told = re.findall(r"^(\w+) : \S.*\n    \S", section(text, "Parameters"), re.MULTILINE)
    assert told == parameters(LONG[name])
    assert section(text, "Returns")
    assert section(text, "Raises")


@pytest.mark.parametrize("name", LONG)
def test_what_may_be_none_is_optional_and_says_what_none_means(name: str) -> None:
    text = section(inspect.cleandoc(LONG[name].__doc__ or ""), "Parameters")
    entries = re.findall(r"^(\w+) : (.*)\n((?:    .*\n?)+)", text, re.MULTILINE)
    may_be_none = {key for key, value in inspect.signature(LONG[name]).parameters.items() if value.default is None}
    assert {key for key, kind, _ in entries if kind.endswith(", optional")} == may_be_none
    here_and_below = "None, here and below" in text
    assert here_and_below or all("None" in words for key, _, words in entries if key in may_be_none)


def test_an_error_made_by_hand_explains_its_arguments() -> None:
    text = inspect.cleandoc(pipeplan.InputError.__doc__ or "")
    told = re.findall(r"^(\w+) : ", section(text, "Parameters"), re.MULTILINE)
    assert told == parameters(pipeplan.InputError)


# ---- what they do not take -----------------------------------------------------------------------------

CHAIN = pipeplan.load_packaged("golden-4")
RESULT = pipeplan.solve(CHAIN, planner="contiguous")
GIVEN: dict[str, Any] = {
    "problem": CHAIN, "plan": RESULT.plan, "result": RESULT, "value": CHAIN, "path": "nowhere/file.json",
    "name": "golden-4", "micro_batches": 4, "build": "my.py:build", "problems": ["tiny-chain"], "methods": ["dp"],
}  # fmt: skip
"""What every function takes that has an argument of this name; all others have defaults."""

REMEDIES = {
    "problem": r"packaged instance.*pipeplan\.load\(path\)",
    "plan": r"result\.plan.*pipeplan\.load_plan\(path\)",
    "warm_start": r"result\.plan.*pipeplan\.load_plan\(path\)",
    "result": r"pipeplan\.solve\(problem\).*pipeplan\.load_result\(path\)",
    "value": r"pipeplan\.load\(path\).*pipeplan\.solve\(problem\)",
    "path": r"name a file",
    "limits": r"pipeplan\.SolveOptions\(",
    "options": r"give a dict",
    "on_progress": r"pipeplan\.Progress",
    "formulation": r"plan formulations",
    "planner": r"plan planners",
    "solver": r"plan solvers",
}
"""How to get what an argument of this name takes, as the sentence says it."""

WRONG: Mapping[str, object] = {
    "None": None, "a number": 5.5, "a dict": {"kind": "chain", "schema": "pipeplan.chain/1"},
    "a list": ["golden-4"], "bytes": b"golden-4", "an object": object(), "a class": ChainProblem,
    "a problem": CHAIN, "a plan": RESULT.plan, "a result": RESULT, "a text": "golden-4",
    "a path": Path("golden-4.json"),
}  # fmt: skip
TAKEN = {
    "problem": {"a problem", "a text", "a path"}, "plan": {"a plan"}, "warm_start": {"a plan", "a text"},
    "result": {"a result"}, "value": {"a problem", "a plan", "a result"}, "path": {"a text", "a path"},
    "limits": {"None"}, "options": {"None", "a dict"}, "on_progress": {"None", "a class"},
    "formulation": {"None", "a text"}, "planner": {"None", "a text"}, "solver": {"a text"},
}  # fmt: skip
"""Which of these are of the right type; `test_names_that_nothing_has` has the texts."""


def call(function: Callable[..., Any], **wrong: object) -> Any:
    """With what is wrong in place of good arguments."""
    known = GIVEN | ({"profile": ROW} if function is pipeplan.run else {})
    return function(**{name: known[name] for name in parameters(function) if name in known} | wrong)


def taking(*arguments: str) -> list[Any]:
    return [
        pytest.param(function, argument, id=f"{name}-{argument}")
        for name, function in FUNCTIONS.items()
        for argument in parameters(function)
        if argument in arguments
    ]


@pytest.mark.parametrize(("function", "argument"), taking(*REMEDIES))
def test_an_argument_of_another_type_ends_in_a_sentence(function: Callable[..., Any], argument: str) -> None:
    """It says which argument, what was given, what is expected and how to get it."""
    optional = inspect.signature(function).parameters[argument].default is None
    for name in WRONG.keys() - TAKEN[argument] - ({"None"} if optional else set()):
        with pytest.raises(pipeplan.InputError, match=REMEDIES[argument]) as told:
            call(function, **{argument: WRONG[name]})
        assert re.match(
            rf"argument {argument} is (None|the text '.*'|an? \w+), not (an? |limits|options)", str(told.value)
        )
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(("function", "argument"), taking("problem"))
@pytest.mark.parametrize("given", ["nowhere", Path("nowhere"), "", "golden-5"])
def test_a_name_that_no_instance_has(function: Callable[..., Any], argument: str, given: Any) -> None:
    with pytest.raises(
        pipeplan.UsageError, match=r"no file and no packaged instance .*pipeplan\.packaged_names\(\)"
    ):
        call(function, **{argument: given})


def test_load_proposes_packaged_names() -> None:
    with pytest.raises(pipeplan.UsageError, match=r"'tiny-stage' \(did you mean 'tiny-stages'\?\).*packaged_names"):
        pipeplan.load("tiny-stage")
    with pytest.raises(pipeplan.InputError, match="file does not exist"):
        pipeplan.load("tiny-stage.json")


@pytest.mark.parametrize(("function", "argument"), taking("problem"))
def test_a_path_that_leads_nowhere(function: Callable[..., Any], argument: str) -> None:
    with pytest.raises(pipeplan.InputError, match=r"nowhere\.json: file does not exist"):
        call(function, **{argument: Path("nowhere.json")})


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (pipeplan.solve, {"warm_start": "golden-4"}),
        (pipeplan.solve, {"formulation": "nonsense"}),
        (pipeplan.solve, {"planner": "nonsense"}),
        (pipeplan.solve, {"solver": "nonsense"}),
        (pipeplan.solve, {"options": {"nonsense": 1}}),
        (pipeplan.sensitivity, {"planner": "nonsense"}),
        (pipeplan.simulate, {"schedule": "nonsense"}),
        (pipeplan.simulate, {"schedule": None}),
        (pipeplan.save, {"format": {}}),
        (pipeplan.load_packaged, {"name": {}}),
        (pipeplan.packaged_names, {"kind": {}}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_words_that_nothing_has(function: Callable[..., Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(pipeplan.UsageError):
        call(function, **wrong)


@pytest.mark.parametrize("contiguity", ["chian", None, 5])
def test_a_misspelt_contiguity_is_not_taken_for_the_default(contiguity: Any) -> None:
    problem = pipeplan.load_packaged("tiny-chain")
    plan = pipeplan.solve(problem, planner="dp").plan
    assert plan is not None
    with pytest.raises(pipeplan.UsageError, match="choose one of none, device, chain"):
        pipeplan.verify(problem, plan, contiguity)


@pytest.mark.parametrize(
    ("function", "argument"), [case for case in taking("plan") if "problem" in parameters(case.values[0])]
)
def test_a_plan_for_another_kind_of_problem(function: Callable[..., Any], argument: str) -> None:
    with pytest.raises(pipeplan.UsageError, match="A placement plan does not fit a chain problem"):
        call(function, **{argument: PlacementPlan(())})


# ---- instances by name and by path ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "argument"), [case for case in taking("problem") if case.values[0] is not pipeplan.load_plan]
)
def test_a_problem_may_be_given_by_name_or_by_path(
    function: Callable[..., Any], argument: str, tmp_path: Path
) -> None:
    """The same answer as for the problem itself; times of runs differ."""
    path = tmp_path / "copy.json"
    path.write_text(problem_to_text(CHAIN), encoding="utf-8")
    more = {"planner": "contiguous"} if "planner" in parameters(function) else {}
    answers = [call(function, **{argument: given}, **more) for given in (CHAIN, "golden-4", path, str(path))]
    if function in (pipeplan.solve, pipeplan.sensitivity):
        results = [getattr(answer, "base", answer) for answer in answers]
        assert {(result.objective, result.problem["hash"]) for result in results} == {
            (RESULT.objective, CHAIN.hash)
        }
    elif function is pipeplan.verify_proof:
        assert {answer.answer for answer in answers} == {"not confirmed"}
    else:
        assert all(answer == answers[0] for answer in answers)


def test_a_plan_is_read_for_an_instance_by_name(tmp_path: Path) -> None:
    pipeplan.save(RESULT, tmp_path / "result.json")
    assert pipeplan.load_plan(tmp_path / "result.json", "golden-4") == RESULT.plan
    with pytest.raises(pipeplan.InputError, match="is of the kind pattern, but the problem is a placement"):
        pipeplan.load_plan(tmp_path / "result.json", "tiny-chain")


def test_a_file_comes_before_a_packaged_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pipeplan.save(CHAIN, "tiny-chain")
    assert pipeplan.solve("tiny-chain", planner="contiguous").problem["name"] == CHAIN.name


def test_an_option_that_no_method_has_is_refused() -> None:
    with pytest.raises(
        pipeplan.UsageError, match=r"There is no option 'nonsense' for a chain problem; give one of"
    ):
        pipeplan.smallest_memory("golden-4", options={"nonsense": True})
