"""Event simulation of pipeline schedules on a graph of stages: one simulator for the plans of every kind."""

from .engine import DeadlockError as DeadlockError
from .engine import run as run
from .iteration import iteration_time as iteration_time
from .model import Dependency as Dependency
from .model import Pipeline as Pipeline
from .model import Stage as Stage
from .orders import gpipe_order as gpipe_order
from .orders import kfkb_order as kfkb_order
from .timeline import Simulation as Simulation
from .timeline import StageRun as StageRun
from .timeline import Task as Task
