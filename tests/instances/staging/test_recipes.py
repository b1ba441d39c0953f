"""Packaged stagings: what is known of them by hand, in which semantics, and what their list shows."""

from __future__ import annotations

from packaged_instances import variants_of

from pipeplan.instances.catalogue import best_known, load_packaged, packaged_info, packaged_names
from pipeplan.instances.staging.plan import PlannedStage, StagedPlan
from pipeplan.instances.staging.referee import evaluate_stages, verify_stages


def test_all_but_leveled_stagings_have_both_variants() -> None:
    names = packaged_names("staging")
    fewer = [name for name in names if variants_of(load_packaged(name)) != ("paper", "reference")]
    assert fewer == ["tiny-levels"]


def test_the_list_of_stagings_shows_what_limits_them() -> None:
    row = next(row for row in packaged_info("staging") if row["name"] == "tiny-stages")
    assert (row["layers"], row["devices"], row["memory_bytes"], row["tensor_degrees"]) == (4, 4, 35.0, [1, 2])
    assert (row["paper"], row["source"]) == (6.0, "four layers by hand, for teaching")


def test_tiny_stages_are_known_by_hand() -> None:
    """The plan of the recipe's comment: the second stage computes 5 and exchanges two tensors both ways."""
    problem = load_packaged("tiny-stages")
    ways = dict(zip("abcd", ["activation recomp"] * 2 + ["vanilla"] * 2, strict=True))
    plan = StagedPlan(tuple(PlannedStage((v,), 1, 1, {v: way}) for v, way in ways.items()))
    assert not verify_stages(problem, plan)
    loads = [cost.load for cost in evaluate_stages(problem, plan).stages]
    known = best_known("tiny-stages", "paper")
    assert known is not None
    assert (loads, known.value, known.proven) == ([5.5, 6.0, 5.0, 4.5], 6.0, True)
