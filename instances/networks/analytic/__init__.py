"""Networks with analytic layer costs, and how they lower to the problems that pipeplan plans."""

from ...physics.hardware import DEVICES as DEVICES
from ...physics.hardware import LINKS as LINKS
from ...physics.hardware import Hardware as Hardware
from ...physics.hardware import Link as Link
from .catalogue import WORKLOADS as WORKLOADS
from .catalogue import build as build
from .model import Layer as Layer
from .model import Workload as Workload
