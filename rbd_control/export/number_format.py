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
        """Name of the C type, ``float`` or ``double``."""
        return "float" if self.single else "double"

    @property
    def suffix(self) -> str:
        """Suffix of constants and of functions of ``math.h``: ``f`` for float, else empty."""
        return "f" if self.single else ""

    def constant(self, value: float) -> str:
        """Return a C constant with the fewest digits that give ``value``, rounded to this type."""
        text = str(np.float32(value)) if self.single else repr(float(value))
        return text + self.suffix

    def call(self, function: str) -> str:
        """Return the name in ``math.h`` of a function for this type, such as ``cosf`` for cos."""
        return function + self.suffix
