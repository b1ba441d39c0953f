"""The neutral matrix form in one place: the model, its compiler from Pyomo, and its files."""

from .compiler import compile_pyomo as compile_pyomo
from .files import write_model as write_model
from .model import MatrixModel as MatrixModel
from .model import from_rows as from_rows
