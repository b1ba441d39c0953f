"""Graph pipelines of known networks on named clusters: the models of GraphPipe's evaluation, and any workload."""

from .clusters import CLUSTERS as CLUSTERS
from .clusters import ClusterProfile as ClusterProfile
from .from_profile import profile_to_graph_pipeline as profile_to_graph_pipeline
from .from_workload import to_graph_pipeline as to_graph_pipeline
from .models import GRAPH_MODELS as GRAPH_MODELS
from .models import GraphModel as GraphModel
from .models import candle_uno as candle_uno
from .models import case_study as case_study
from .models import dlrm as dlrm
from .models import mmt as mmt
from .models import sequential as sequential
