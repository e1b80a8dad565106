"""Numbers and mathematical functions in C, in double and in single precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NumberFormat:
    """The floating-point type of the exported code.

    Attributes:
        single: whether the type is ``float`` instead of ``double``.
    """

    single: bool = False

    @property
    def type_name(self) -> str:
        """Name of the C type."""
        return "float" if self.single else "double"

    @property
    def suffix(self) -> str:
        """Suffix of constants and of functions of ``math.h``."""
        return "f" if self.single else ""

    def constant(self, value: float) -> str:
        """Return a constant with as many digits as the exact value needs."""
        text = str(np.float32(value)) if self.single else repr(float(value))
        return text + self.suffix

    def call(self, function: str) -> str:
        """Return the name of a function of ``math.h``."""
        return function + self.suffix
