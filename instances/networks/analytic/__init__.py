"""Networks with analytic layer costs, and how they lower to the problems that pipeplan plans."""

from .catalogue import WORKLOADS as WORKLOADS
from .catalogue import build as build
from .hardware import DEVICES as DEVICES
from .hardware import LINKS as LINKS
from .hardware import Hardware as Hardware
from .hardware import Link as Link
from .model import Layer as Layer
from .model import Workload as Workload
