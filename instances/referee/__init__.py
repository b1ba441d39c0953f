"""The referee: recomputes what a plan costs and says in words what is wrong with it. Believes nothing stored."""

from .evaluate import OBJECTIVES as OBJECTIVES
from .evaluate import DeviceLoad as DeviceLoad
from .evaluate import GroupLoad as GroupLoad
from .evaluate import NotAnAssignmentError as NotAnAssignmentError
from .evaluate import PlacementEvaluation as PlacementEvaluation
from .evaluate import evaluate as evaluate
from .latency import LatencyEvaluation as LatencyEvaluation
from .latency import Piece as Piece
from .latency import evaluate_latency as evaluate_latency
from .stages import is_contiguous_set as is_contiguous_set
from .stages import stage_order as stage_order
from .verify import CONTIGUITIES as CONTIGUITIES
from .verify import MEMORY_TOLERANCE as MEMORY_TOLERANCE
from .verify import RULES as RULES
from .verify import Violation as Violation
from .verify import verify as verify
