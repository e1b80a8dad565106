"""Result of a measurement of the control loop, and the parameters that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

from rbd_control.control.loop import HELD, Loop
from rbd_control.errors import InputError

HOLDING = 0.5
"""Delay of the loop by holding the torque, in sample periods; part of :data:`HELD`."""

RATIO = 0.5
"""Ratio of ``bandwidth`` to ``damping_rate`` in the gains of a result."""

WORST_ERROR, WORST_SHARE = 0.00025, 0.03
"""Standard error above which a delay is not determined [s], and as a share of the delay."""


class LoopGains(NamedTuple):
    """Parameters of the controller that follow from a measurement."""

    damping_rate: float
    bandwidth: float
    loop_delay: float
    resonance: float | None
    """None if no resonance was found; the parameter then keeps its value."""


@dataclass(frozen=True)
class JointResponse:
    """Response of one joint to a small torque; NaN for figures that are not determined.

    Attributes:
        joint: name of the joint.
        delay: delay from the command to the velocity [s].
        error: standard error of ``delay`` [s].
        effort_delay: delay from the command to the measured effort [s].
        inertia_ratio: inertia that the joint shows, divided by the inertia of the description:
            1 + B / M_ii with the inertia B of a rotor that the description lacks.
        resonance: lowest resonance of the response [Hz].
        note: why the delay is not determined, or a defect of the drive; otherwise empty.
    """

    joint: str
    delay: float = nan
    error: float = nan
    effort_delay: float = nan
    inertia_ratio: float = nan
    resonance: float = nan
    note: str = ""

    @property
    def is_determined(self) -> bool:
        """Whether the delay is known with a standard error within :data:`WORST_ERROR`."""
        return self.error <= max(WORST_ERROR, WORST_SHARE * self.delay)


@dataclass(frozen=True)
class LoopResult:
    """Result of a measurement of the control loop.

    Attributes:
        joints: responses of the joints that were measured, in the order of the model.
        period: median period of the joint states [s].
        ended: why the measurement ended early; empty if it is complete.
    """

    joints: tuple[JointResponse, ...]
    period: float
    ended: str = ""

    @property
    def delay(self) -> float:
        """Whole delay T of the loop [s]: the largest delay of a joint plus half a period.

        The torque is held for a period, which delays it by half. NaN: no delay is determined.
        """
        found = [each.delay for each in self.joints if each.is_determined]
        return max(found) + HOLDING * self.period if found else nan

    @property
    def loop_delay(self) -> float:
        """The parameter ``loop_delay`` [s]: T less one and a half periods, at least 0; or NaN."""
        return nan if isnan(self.delay) else max(self.delay - HELD * self.period, 0.0)

    @property
    def resonance(self) -> float:
        """Lowest resonance of the arm [Hz]; NaN if none was found."""
        return min(
            (each.resonance for each in self.joints if not isnan(each.resonance)), default=nan
        )

    def gains(self, resonance: float) -> LoopGains:
        """Return the largest stable gains, see :meth:`Loop.largest_rate`.

        Args:
            resonance: the present parameter [Hz], which is used if no resonance was found.

        Raises:
            InputError: if no delay is determined.
        """
        if isnan(self.delay):
            raise InputError(f"the delay of the loop is not determined{self._why()}")
        found = self.resonance
        used = resonance if isnan(found) else found
        rate = Loop(self.period, self.loop_delay, used).largest_rate(RATIO)
        return LoopGains(rate, RATIO * rate, self.loop_delay, None if isnan(found) else found)

    def exceeded(self, damping_rate: float, bandwidth: float, resonance: float) -> str:
        """Return a warning if gains are too high for the measured loop; otherwise an empty text.

        Args:
            damping_rate, bandwidth: the present gains [1/s].
            resonance: the present parameter [Hz].
        """
        if isnan(self.delay) or damping_rate <= 0.0:
            return ""
        used = resonance if isnan(self.resonance) else self.resonance
        try:
            Loop(self.period, self.loop_delay, used).require(damping_rate, bandwidth)
        except InputError as error:
            return f"measured loop: {error}"
        return ""

    def lines(self) -> list[str]:
        """Return a table of the joints, and the figures of the loop, as lines of text."""
        width = max((len(each.joint) for each in self.joints), default=5)
        lines = [f"{'joint':{width}}  delay [ms]  effort delay [ms]  inertia ratio  resonance [Hz]"]
        for each in self.joints:
            delay = f"{_text(1e3 * each.delay, '.1f')} ± {_text(1e3 * each.error, '.1f')}"
            row = (
                f"{each.joint:{width}}  {delay if each.is_determined else '-':>10}  "
                f"{_text(1e3 * each.effort_delay, '.1f'):>17}  "
                f"{_text(each.inertia_ratio, '.2f'):>13}  {_text(each.resonance, '.0f'):>14}"
            )
            lines.append(f"{row}  {each.note}".rstrip())
        if self.period > 0.0:
            lines.append(f"joint states: {1.0 / self.period:.4g} Hz")
        if isnan(self.delay):
            lines.append(f"delay of the loop: not determined{self._why()}")
        else:
            lines.append(
                f"delay of the loop: {1e3 * self.delay:.1f} ms, of which {HELD:g} periods of "
                f"sampling and holding; loop_delay {1e3 * self.loop_delay:.1f} ms"
            )
        if self.ended:
            lines.append(f"ended early: {self.ended}")
        return lines

    def parameter_lines(self, resonance: float) -> list[str]:
        """Return the parameters as lines of an arm file; none if no delay is determined.

        Args:
            resonance: see :meth:`gains`.
        """
        if isnan(self.delay):
            return []
        return ["passivity_controller:", "  ros__parameters:"] + [
            f"    {name}: {text}" for name, text in parameter_texts(self.gains(resonance)).items()
        ]

    def _why(self) -> str:
        return f" ({self.ended})" if self.ended else ""


def parameter_texts(gains: LoopGains) -> dict[str, str]:
    """Return the values of parameters as YAML by name, rounded to the safe side."""
    texts = {
        "damping_rate": f"{_down(gains.damping_rate)}",
        "bandwidth": f"[{_down(gains.bandwidth)}]",
        "loop_delay": f"{gains.loop_delay:.4f}",
    }
    if gains.resonance is not None:
        texts["resonance"] = f"{gains.resonance:.1f}"
    return texts


def _down(value: float) -> float:
    """Return a gain with one decimal, rounded down."""
    return int(10.0 * value) / 10.0


def _text(value: float, form: str) -> str:
    return "-" if isnan(value) else format(value, form)
