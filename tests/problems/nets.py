"""Small PyTorch models that are modules and the code that uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn


class Net(nn.Module):
    """Modules, and the code that uses them."""

    def __init__(self, code: Callable[[Any, Any], Any], **modules: nn.Module) -> None:
        super().__init__()
        self.code = code
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x: Any) -> Any:
        return self.code(self, x)
