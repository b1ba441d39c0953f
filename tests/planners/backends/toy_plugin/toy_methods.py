"""Methods in another package: a formulation that is one of ours under another name, and a planner with an option."""

from pipeplan import OptionSpec, Outcome, PlacementPlan, Request, Stop
from pipeplan.formulations.registry import FORMULATIONS, Entry

FORMULATION = FORMULATIONS["ip-tarnawski"].load()


def make_model() -> Entry:
    known = FORMULATIONS["ip-tarnawski"]
    return Entry(
        "unused", "Ours once more", "placement", "toy_methods:FORMULATION", known.options, scope=known.scope
    )


class OneDevice:
    """All nodes on one device, whose number is an option."""

    def plan(self, request: Request) -> Outcome:
        devices = dict.fromkeys(request.problem.ids, request.options["device"])
        plan = PlacementPlan.from_assignment(request.problem, devices)
        return Outcome(Stop.COMPLETED, plan)


PLANNER = OneDevice()
PLANNER_ENTRY = Entry(
    "one",
    "All on one device",
    "placement",
    "toy_methods:PLANNER",
    (OptionSpec("device", "int", 0, "Its number."),),
    exact=False,
)
