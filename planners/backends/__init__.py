"""The solver layer: neutral models in, raw outcomes out, every solver in a process of its own.

The parent process never imports a solver: see `client` for how a model gets to one, `registry` for which there are.
"""

from .client import Job as Job
from .client import solve as solve
from .client import submit as submit
from .model import MatrixModel as MatrixModel
from .model import from_rows as from_rows
from .records import Answer as Answer
from .records import Event as Event
from .records import Incumbent as Incumbent
from .registry import BACKENDS as BACKENDS
from .registry import Backend as Backend
from .registry import Capabilities as Capabilities
from .registry import all_backends as all_backends
from .registry import available as available
from .registry import describe as describe
from .registry import find_backend as find_backend
