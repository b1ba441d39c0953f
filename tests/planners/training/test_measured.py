"""Runs that were made, from tables and logs: what is read, what they make of the efficiencies, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from pipeplan import InputError, PipeplanError, TrainingProblem, UsageError
from pipeplan.instances.base.quantities import GIB
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.scope import fit_of
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.planners.training.measured import Fitted, fitted, measured_runs, save_fit, saved_fit
from pipeplan.planners.training.runs import Run, template


@cache
def llama() -> TrainingProblem:
    return problem_of("llama-3-8b", "8xh100-80gb", batch=32, sequence=4096)


def table(folder: Path, *rows: str, header: str = "tensor,pipeline,seconds") -> str:
    path = folder / "runs.csv"
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return str(path)


@cache
def short() -> TrainingProblem:
    """Few layers, whose times are soon computed."""
    return problem_of("llama-3-8b", "8xh100-80gb", batch=32, sequence=4096, layers=4)


# ---- tables --------------------------------------------------------------------------------------------


def test_the_template_has_every_column_and_no_row(tmp_path: Path) -> None:
    assert template().strip().split(",") == [
        *("model", "layers", "dense_layers", "devices", "sequence", "batch", "micro_batch", "tensor", "context"),
        *("pipeline", "virtual", "data", "expert", "zero", "recompute", "precision", "seconds", "peak_gib"),
    ]
    path = tmp_path / "runs.csv"
    path.write_text(template(), "utf-8")
    with pytest.raises(InputError, match="has no row"):
        measured_runs(path, llama())


def test_absent_and_empty_are_defaults(tmp_path: Path) -> None:
    path = table(tmp_path, "first,2,,1.5,", ",4,16,,40.25", header="name,tensor,batch,seconds,peak_gib")
    first, second = measured_runs(path, llama())
    assert first == Run(llama(), configuration_from_words(llama(), "tensor=2"), 1.5, "first")
    assert (second.name, second.problem.batch, second.problem.sequence) == ("row 3", 16, 4096)
    assert (second.seconds, second.peak_bytes) == (None, 40.25 * GIB)


def test_a_row_says_everything(tmp_path: Path) -> None:
    header = template().strip()
    row = 'deepseek-v2,4,1,8,8192,64,2,1,1,2,1,4,4,1,"mla_up_proj,moe_act",bf16,1.5,44.7'
    (run,) = measured_runs(table(tmp_path, row, header=header), llama())
    model = run.problem.model
    assert (model.name, model.layers) == ("deepseek-v2", 4)
    assert model.experts is not None
    assert model.experts.dense_layers == 1
    assert (run.problem.batch, run.problem.sequence) == (64, 8192)
    words = "pipeline=2 expert=4 micro-batch=2 recompute=mla_up_proj,moe_act"
    assert run.plan == configuration_from_words(run.problem, words)


def test_a_row_may_leave_multi_token_prediction_out(tmp_path: Path) -> None:
    path = table(
        tmp_path,
        "deepseek-v3,4,,8,20",
        "deepseek-v3,4,0,8,20",
        header="model,layers,prediction_layers,expert,peak_gib",
    )
    assert [run.problem.model.prediction_layers for run in measured_runs(path, llama())] == [1, 0]


def test_runs_on_another_number_of_the_same_gpus(tmp_path: Path) -> None:
    own = problem_of("llama-3-8b", "64xh100-80gb", batch=64, sequence=4096)
    path = table(tmp_path, "16,2,3.0", "8xh100-80gb,2,6.0", header="devices,tensor,seconds")
    first, second = measured_runs(path, own)
    assert (first.problem.devices, second.problem.devices) == (16, 8)
    with pytest.raises(InputError, match=r"row 2: devices are '8xa100-80gb', and the problem has h100-80gb"):
        measured_runs(table(tmp_path, "8xa100-80gb,3.0", header="devices,seconds"), own)


@pytest.mark.parametrize(("header", "row", "sentence"), [
    ("virtual,schedule,seconds", "2,interleaved-1f1b,1",
     "row 2: it cannot have been run: Several chunks on a rank"),
    ("tensor,seconds", "16,1.0", "row 2: configuration has 16 x 1 x 1 ranks for 8 GPUs"),
    ("micro_batch,seconds", "3,1.0", "row 2: configuration: micro-batch is 3, and 8 data-parallel ranks"),
    ("zero,seconds", "3,1.0", "row 2: it cannot have been run: megatron has no ZeRO stage 3"),
    ("expert,seconds", "2,1.0", "row 2: it cannot have been run: Expert parallelism divides the number"),
    ("model,seconds", "lama-3-8b,1.0", "row 2: There is no model named 'lama-3-8b'"),
    ("layers,seconds", "x,1.0", "row 2: layers is 'x'; give a whole number."),
    ("precision,seconds", "fp4,1.0", "row 2: precision is 'fp4'"),
    ("recompute,seconds", "everything,1.0", "row 2: configuration: recompute is 'everything'"),
    ("tensor,seconds", "2,fast", "row 2: seconds is 'fast'; give a number above 0 and below 1e+30."),
    ("tensor,seconds", "2,nan", "row 2: seconds is 'nan'; give a number above 0 and below 1e+30."),
    ("tensor,seconds", "2,1e300", "row 2: seconds is '1e300'; give a number above 0 and below 1e+30."),
    ("tensor,seconds", "2,1e20", "row 2: seconds is 1e+20, and this configuration is predicted to take"),
    ("tensor,seconds", "2,1e-300", "row 2: seconds is 1e-300, and this configuration is predicted to take"),
    ("tensor,peak_gib", "2,1e20", "row 2: peak_gib is 1e+20, and this configuration is predicted to take"),
    ("tensor,peak_gib", "2,1e-300", "row 2: peak_gib is 1e-300, and this configuration is predicted to take"),
    ("tensor,seconds", "2,", "row 2: seconds is empty, and so is peak_gib; give what was measured."),
    ("tensor,seconds", "2,1,7", "row 2 has more cells than there are columns; drop them."),
    ("tensr,seconds", "2,1.0", "content has the column 'tensr'; write \"tensor\"."),
    ("tensor,tensor,seconds", "2,2,1.0", "content has the column 'tensor' twice; give it once."),
    ("layout,seconds", "=cmd(),1.0", "row 2: layout holds '='; give E"),
])  # fmt: skip
def test_mistakes_are_one_sentence_with_the_row(tmp_path: Path, header: str, row: str, sentence: str) -> None:
    path = table(tmp_path, row, header=header)
    with pytest.raises(PipeplanError) as found:
        measured_runs(path, llama())
    assert str(found.value).startswith(f"{path}: {sentence}")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("row", "sentence"), [
    ("2,2500,", "these look like milliseconds; divide the column by 1000."),
    ("2,2500000,", "these look like microseconds; divide the column by 1000000."),
    ("2,,40000", "these look like MiB; divide the column by 1024."),
    ("2,,40000000000", "these look like bytes; divide the column by 1073741824."),
    ("2,2500000000000,", "give what was measured, or a model, a batch and GPUs that are those of the run."),
])  # fmt: skip
def test_amounts_in_another_unit_are_asked_back(tmp_path: Path, row: str, sentence: str) -> None:
    with pytest.raises(InputError, match="row 2: ") as found:
        measured_runs(table(tmp_path, row, header="tensor,seconds,peak_gib"), llama())
    assert str(found.value).endswith(sentence)


def test_a_log_of_another_model_is_asked_back(tmp_path: Path) -> None:
    text = re.sub(r"\(ms\): \d+", "(ms): 90000000", MEGATRON)
    with pytest.raises(InputError, match=r"seconds is 90000, and this configuration is predicted to take") as found:
        measured_runs(log(tmp_path, text), llama())
    assert found.value.file == str(tmp_path / "train.log")


# ---- logs ----------------------------------------------------------------------------------------------

PROBLEMS = Path(__file__).parents[2] / "problems"
MEGATRON, TITAN = ((PROBLEMS / f"{name}_log.txt").read_text("utf-8") for name in ("megatron", "torchtitan"))


def log(folder: Path, text: str) -> str:
    path = folder / "train.log"
    path.write_text(text, "utf-8")
    return str(path)


def test_a_log_of_megatron_says_configuration_time_and_peak(tmp_path: Path) -> None:
    path = log(tmp_path, MEGATRON)
    (run,) = measured_runs(path, llama())
    assert (run.problem.batch, run.problem.sequence, run.problem.devices) == (32, 8192, 8)
    words = "tensor=2 pipeline=2 virtual=4 recompute=full"
    assert run.plan == configuration_from_words(run.problem, words)
    assert run.seconds == 2.002
    assert run.peak_bytes == 51200 * 2**20
    assert run.told == (f"{path}: the median of 3 iterations.",)


def test_a_log_of_torchtitan_says_configuration_time_and_peak(tmp_path: Path) -> None:
    path = log(tmp_path, TITAN)
    (run,) = measured_runs(path, llama())
    assert run.problem.framework == "torchtitan"
    assert run.plan == configuration_from_words(run.problem, "pipeline=2 zero=2 recompute=full")
    assert run.seconds == 32 * 8192 / (8192 * 8)
    assert run.peak_bytes == 44.3 * GIB


@pytest.mark.parametrize(("text", "sentence"), [
    ("nothing of the kind", "content is neither a table of runs nor a log of Megatron or torchtitan"),
    (MEGATRON[MEGATRON.index(" [2025") :], "content holds no arguments of Megatron; give the log from its"),
    (TITAN[TITAN.index("[titan] 2025-07-29 19:53:09") :], "content names neither the device mesh nor the batches"),
    (MEGATRON.replace("tensor_model_parallel_size ...................... 2", "tensor_model_parallel_size ... 3"),
     ""),
    (MEGATRON.replace("num_layers ...................................... 32", "num_layers ... 33"), ""),
])  # fmt: skip
def test_logs_that_say_too_little_are_refused_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = log(tmp_path, text)
    with pytest.raises(PipeplanError) as found:
        measured_runs(path, llama())
    assert str(found.value).startswith(f"{path}: {sentence}")
    assert "\n" not in str(found.value)


# ---- fits ----------------------------------------------------------------------------------------------

WORDS = ("tensor=1", "tensor=4", "tensor=8", "tensor=2 pipeline=2", "context=2 recompute=full")
TRUE = {"products": 0.6, "links": 0.5, "tensor_hidden": 0.3}


def made_up(problem: TrainingProblem, *words: str, slower: float = 1.0) -> tuple[Run, ...]:
    """Runs of a cluster whose efficiencies are `TRUE`."""
    true = problem.replace(efficiencies=replace(problem.efficiencies, **TRUE))
    plans = [configuration_from_words(problem, text) for text in words]
    return tuple(
        Run(problem, plan, timing_of(true, plan).seconds * slower, name=text)
        for plan, text in zip(plans, words, strict=True)
    )


@cache
def fit_of_all() -> Fitted:
    return fitted(short(), made_up(short(), *WORDS))


def test_the_fit_explains_what_the_defaults_do_not() -> None:
    own = fit_of_all()
    assert own.fit is not None
    runs = made_up(short(), *WORDS)
    before = max(abs(run.seconds / timing_of(short(), run.plan).seconds - 1) for run in runs if run.seconds)
    assert own.fit.worst < 0.02 < before
    assert own.changes["products"][1] == pytest.approx(TRUE["products"], rel=0.1)


def test_every_run_is_left_out_once_and_its_error_is_the_tolerance() -> None:
    own = fit_of_all()
    assert sorted(run.name for run in own.seconds) == sorted(WORDS)
    assert own.eps == max(abs(run.measured / run.predicted - 1) for run in own.seconds)
    assert own.left_out == len(WORDS)
    assert any(f"Times of {len(WORDS)} runs that were left out" in line for line in own.sentences())


def test_what_each_run_said_of_each_efficiency() -> None:
    """Without tensor parallelism a run says nothing of what tensor parallelism hides."""
    own = fit_of_all()
    said = dict(own.said("tensor_hidden"))
    assert set(said) <= {text for text in WORDS if "tensor=" in text and text != "tensor=1"}
    assert {"tensor=8"} <= set(said)
    assert len(own.said("products")) == len(WORDS)
    assert own.said("grouped_products") == ()
    assert any(line.startswith("No run depends on") and "grouped_products" in line for line in own.sentences())


def test_equal_configurations_are_left_out_together() -> None:
    """One that was run twice is no test of itself."""
    once = made_up(short(), "tensor=2", "tensor=8")
    again = tuple(replace(run, seconds=run.seconds and run.seconds * 1.2, name=f"{run.name} again") for run in once)
    own = fitted(short(), (*once, *again))
    assert own.left_out == 4
    assert own.eps is not None
    assert own.eps > 0.02


def test_a_single_run_leaves_nothing_out() -> None:
    own = fitted(short(), made_up(short(), "tensor=4"))
    assert own.left_out == 0
    assert own.fit is not None
    assert own.eps == own.fit.worst


def test_a_share_left_out_at_a_time() -> None:
    heard: list[tuple[int, int]] = []
    own = fitted(short(), made_up(short(), *WORDS), share=0.5, heard=lambda *told: heard.append(told))
    assert heard == [(number, 4) for number in range(4)]
    assert own.left_out == len(WORDS)
    with pytest.raises(UsageError, match="between 0 and 1"):
        fitted(short(), made_up(short(), *WORDS), share=1.5)


def test_contradictory_runs_of_one_configuration_are_an_error_of_the_model() -> None:
    """Times of 1, 2 and a half: no prediction is within 60 % of all."""
    once = made_up(short(), "tensor=2")[0]
    assert once.seconds is not None
    runs = [replace(once, seconds=once.seconds * times, name=f"x{times:g}") for times in (1, 2, 0.5)]
    own = fitted(short(), runs)
    assert own.left_out == 0
    assert own.eps is not None
    assert own.eps > 0.6
    assert any("3 runs of one configuration took" in line for line in own.sentences())


def test_the_answer_says_how_many_runs_there_are_and_in_what_they_differ() -> None:
    own = fitted(short(), made_up(short(), "tensor=1 data=8", "tensor=4 data=2"))
    assert "2 runs were given, which differ in tensor (1 to 4), data (2 to 8)." in own.sentences()


@pytest.mark.parametrize("share", [0.8, 0.97, 1.02, 1.3])
def test_higher_peaks_never_make_more_fit(share: float) -> None:
    """A peak above its prediction makes less fit for sure, and no more perhaps; one below it the other way round."""
    plan = configuration_from_words(short(), "tensor=2")
    run = Run(short(), plan, None, None)
    margin = fitted(short(), (replace(run, peak_bytes=share * run.predicted_peak()),)).memory_margin
    assert margin is not None
    assert (margin.more, margin.less) == pytest.approx((max(0, share - 1), max(0, 1 - share)))
    limit = 100.0
    assert fit_of(limit * 1.001, limit, margin) == ("maybe" if share < 1 else "no")
    assert fit_of(limit * 0.999, limit, margin) == ("yes" if share < 1 else "maybe")


def test_peaks_are_compared_and_nothing_of_them_is_fitted() -> None:
    plan = configuration_from_words(short(), "tensor=2")
    own = fitted(short(), (Run(short(), plan, None, "own", 1.1 * 30 * GIB),))
    assert own.fit is None
    assert own.efficiencies == short().efficiencies
    assert own.memory_eps == abs(own.memory[0].error)
    assert own.eps is None


# ---- saved and given again -----------------------------------------------------------------------------


def test_a_fit_to_other_gpus_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    save_fit(path, short(), fitted(short(), made_up(short(), WORDS[0])))
    other = problem_of("llama-3-8b", "8xa100-80gb", batch=32, sequence=4096)
    with pytest.raises(InputError, match=r"gpu is h100-80gb, and the problem has a100-80gb"):
        saved_fit(path, other)


@pytest.mark.parametrize(("text", "sentence"), [
    ("[]", "is a list, not an object"),
    ('{"schema": "pipeplan.result/1"}', "schema"),
    ('{"schema": "pipeplan.efficiencies/1", "efficiencies": {"products": 2}}', "efficiencies.products is 2"),
    ('{"schema": "pipeplan.efficiencies/1", "efficiencies": {"prodcts": 1}}', "prodcts"),
])  # fmt: skip
def test_files_that_are_no_fit(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "fit.json"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as found:
        saved_fit(path)
    assert str(path) in str(found.value)
    assert sentence in str(found.value)
