"""The integer program for periodic 1F1B patterns, equations numbered as in the paper."""

from .formulation import FORMULATION as FORMULATION
from .formulation import build as build
