"""What an example of the controller's state machine starts with, and the orders so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any

from stateful.arms import Arm


@dataclass(frozen=True)
class Elastic:
    """Elastic gears: a rotor for each joint, which drives its link through a spring.

    The rotor of the joint with the largest inertia has the inertia ``rotor``, and others less, in
    proportion to the square root of the inertia of their joint. Rotors of prismatic joints have ten
    times this inertia [kg], about that of a spindle. No rotor has less than a tenth of the largest
    inertia of its joint. Stiffnesses are in proportion to the rotors, and the lowest resonance in
    the posture to start from is ``resonance``.

    Attributes:
        rotor: inertia of rotor and gear of the heaviest joint [kg·m²].
        resonance: lowest resonance of the arm [Hz].
        on_motor: whether the encoders are on the side of the motors, otherwise on the links.
    """

    rotor: float
    resonance: float
    on_motor: bool = False


@dataclass(frozen=True)
class Setup:
    """What an example starts with.

    Attributes:
        arm: the arm and its description.
        parameters: of the controller, those that are not as by default.
        compensated: whether the arm adds its own weight to the commanded torque.
        period: of the joint states [s].
        resolution: of measured position and velocity; zero for exact ones [rad or m, and per s].
        noise: standard deviation of the measured position and velocity, likewise.
        wraps: whether the encoders of continuous joints wrap at half a turn.
        friction: Coulomb and viscous friction of every joint [N·m, N·m·s/rad].
        payload: mass at the end of the arm that its description lacks [kg].
        start: (n,) position at the start, which may lie beyond the limits [rad or m].
        delay: time from a command to its torque, rounded to whole periods [s].
        velocity_lag: time constant of a low-pass filter of the measured velocities [s].
        elastic: elastic gears; None for a rigid arm.
    """

    arm: Arm
    parameters: Mapping[str, Any]
    compensated: bool = False
    period: float = 0.001
    resolution: tuple[float, float] = (0.0, 0.0)
    noise: tuple[float, float] = (0.0, 0.0)
    wraps: bool = False
    friction: tuple[float, float] = (0.1, 0.1)
    payload: float = 0.0
    start: tuple[float, ...] = ()
    delay: float = 0.0
    velocity_lag: float = 0.0
    elastic: Elastic | None = None


@dataclass
class Orders:
    """What the orders so far let the arm do.

    Attributes:
        stopped: time of the last order to stop, which still holds [s]; NaN without one.
        stop_row: row of that order.
        jump_row: row of the last jump of the stamps.
        stop_time: time in which the arm must come to rest after it [s].
        retreat_row: row of the last retreat.
        pauses: rows of retreats, which begin with a stop, and the times until which it must come.
    """

    stopped: float = nan
    stop_row: int = 0
    jump_row: int = -1000
    stop_time: float = 0.0
    retreat_row: int = 0
    pauses: list[tuple[int, float]] = field(default_factory=list)
