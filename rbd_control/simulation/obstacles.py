"""Obstacles: springs with dampers that push and never pull.

A point of the arm at depth ``x`` below the surface, sinking at ``x_dot``, is pushed out along the
normal with ``max(0, stiffness x + damping x_dot)`` (Kelvin-Voigt without adhesion) and without
friction along the surface.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import hypot, isfinite
from typing import Final

from rbd_control.errors import InputError

Vector = tuple[float, float, float]

SPHERE: Final = 0.0
HALF_SPACE: Final = 1.0


@dataclass(frozen=True)
class Sphere:
    """A spherical obstacle fixed in the world.

    Raises:
        InputError: for a radius or stiffness that is not positive, a negative damping, or
            numbers that are not finite.
    """

    centre: Vector
    """Position of the centre, world axes [m]."""
    radius: float
    """Radius [m]."""
    stiffness: float = 10000.0
    """Contact stiffness [N/m]."""
    damping: float = 100.0
    """Contact damping [N·s/m]."""

    def __post_init__(self) -> None:
        _check(self)
        if self.radius <= 0.0:
            raise InputError(f"Sphere radius is {self.radius} m; it must be positive")

    def row(self) -> tuple[float, ...]:
        """Return the obstacle as a row for the compiled step.

        The row has ten numbers: kind, centre (3) [m], zeros for the normal (3), radius [m],
        stiffness [N/m] and damping [N·s/m].
        """
        return (
            SPHERE, *self.centre, 0.0, 0.0, 0.0, self.radius, self.stiffness, self.damping
        )  # fmt: skip


@dataclass(frozen=True)
class HalfSpace:
    """An obstacle such as a table or a wall, fixed in the world: all space behind a plane.

    Raises:
        InputError: for a normal of length zero, a stiffness that is not positive, a negative
            damping, or numbers that are not finite.
    """

    point: Vector
    """Any point of the surface, world axes [m]."""
    normal: Vector
    """Normal that points out of the obstacle, world axes, of any length above zero."""
    stiffness: float = 10000.0
    """Contact stiffness [N/m]."""
    damping: float = 100.0
    """Contact damping [N·s/m]."""

    def __post_init__(self) -> None:
        _check(self)
        if hypot(*self.normal) == 0.0:
            raise InputError("HalfSpace normal has no length")

    def row(self) -> tuple[float, ...]:
        """Return the obstacle as a row for the compiled step.

        The row has ten numbers: kind, point (3) [m], unit normal (3), zero for the radius,
        stiffness [N/m] and damping [N·s/m].
        """
        length = hypot(*self.normal)
        n = tuple(x / length for x in self.normal)
        return (HALF_SPACE, *self.point, *n, 0.0, self.stiffness, self.damping)


Obstacle = Sphere | HalfSpace


def _check(obstacle: Obstacle) -> None:
    name = type(obstacle).__name__
    for item in fields(obstacle):
        value = getattr(obstacle, item.name)
        if item.type == "Vector":
            value = tuple(float(x) for x in value)
            if len(value) != 3:
                raise InputError(f"{name} {item.name} has {len(value)} numbers; give three")
            object.__setattr__(obstacle, item.name, value)
        if not all(isfinite(x) for x in (value if isinstance(value, tuple) else (value,))):
            raise InputError(f"{name} {item.name} is {value}; give finite numbers")
    if obstacle.stiffness <= 0.0:
        raise InputError(f"{name} stiffness is {obstacle.stiffness} N/m; it must be positive")
    if obstacle.damping < 0.0:
        raise InputError(f"{name} damping is {obstacle.damping} N·s/m; it must not be negative")
