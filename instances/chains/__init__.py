"""Chains: families with known answers, a benchmark recipe, and lowerings from networks, graphs and profiles."""

from .from_placement import placement_groups as placement_groups
from .from_placement import placement_to_chain as placement_to_chain
from .from_placement import profile_to_chain as profile_to_chain
from .from_workload import GRAINS as GRAINS
from .from_workload import workload_groups as workload_groups
from .from_workload import workload_to_chain as workload_to_chain
from .golden import golden_chains as golden_chains
from .guards import guard_chains as guard_chains
from .known import VARIANTS as VARIANTS
from .known import KnownChain as KnownChain
from .recipe import SEEDS as SEEDS
from .recipe import SIZES as SIZES
from .recipe import resnet_like as resnet_like
from .recipe import tightness as tightness
from .theory import theory_chains as theory_chains
