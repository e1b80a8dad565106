"""Delay and resonance of the control loop from recorded responses, and what follows.

**Fit of the delay between the torque of a joint and its motion.**

A joint i that a small torque moves obeys, with the momentum p = M v of the described arm, the
inertia B of the joint that the description lacks, and the delay T::

    (1 + B / M_ii) (dp/dt - Cᵀ v + g)_i = tau_i(t - T) - F sign(v_i) - b v_i + c

p and v are measured and therefore late together, so T is the sum of the delays of command and
measurement. The constant c is the weight that the command does not carry. The equation is
integrated over :data:`SPAN`, which suppresses noise and the vibration of elastic joints, and solved
for 1 / (1 + B / M_ii), F, b and c by least squares, for each T of a grid. The least residual
determines T; a parabola through its neighbours refines it. Spans in which the joint stands or
reverses are left out, because static friction is unknown there. Two frequencies of the torque
separate T from b, which act alike at one frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.gains import HELD, Loop
from rbd_control.dynamics.compiled import compiled
from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.momentum import momentum_sweep
from rbd_control.dynamics.small_systems import factor_cholesky, solve_factored
from rbd_control.dynamics.sweep import new_sweep
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


Array = NDArray[np.float64]

SPAN = 0.02
"""Time over which the equation is integrated [s]."""

STEP, EARLIEST, LATEST = 0.001, -0.002, 0.06
"""Step and ends of the grid of delays [s]; a parabola needs delays below the least possible one."""

LARGEST_GAIN = 1.5
"""Largest gain of a motion: a joint may have more inertia than described, but not much less."""

BLOCKS = 6
"""Parts of a record; the standard error follows from fits without one of them (jackknife)."""

TORQUE, FRICTION, DAMPING, CONSTANT, MOTION = range(5)
"""Columns of the normal equations."""


class Record(NamedTuple):
    """Samples of one joint, (m,) each, with increasing stamps.

    Attributes:
        t: stamps [s].
        p: integral of the response: of the left side of the equation, or of the measured effort.
        impulse: integral of the command [N·m·s or N·s].
        q, v: position and velocity of the joint [rad or m, rad/s or m/s].
    """

    t: Array
    p: Array
    impulse: Array
    q: Array
    v: Array


class Fit(NamedTuple):
    """A fitted response.

    Attributes:
        delay: the delay T [s]; NaN if it is not within the grid.
        error: its standard error [s].
        gain: response per torque, 1 / (1 + B / M_ii) for the momentum.
        explained: share of the response that the torque explains beyond friction, 0 to 1.
    """

    delay: float
    error: float
    gain: float
    explained: float


class DelayFit:
    """Fits one record; call :meth:`step` until it returns True, then :meth:`result`.

    Each step evaluates one delay, so that a control loop can do other work in between.

    Args:
        record: the samples.
        slow: least speed at which a joint counts as moving [rad/s or m/s]. None: the response needs
            no motion, and has no friction.
    """

    def __init__(self, record: Record, slow: float | None) -> None:
        period = float(np.median(np.diff(record.t)))
        self._record, self._slow = record, 0.0 if slow is None else slow
        if slow is None:
            self._record = record._replace(v=np.ones_like(record.v))
        self._span = max(1, round(SPAN / period))
        self._unknowns = np.array([TORQUE, CONSTANT] if slow is None else [*range(MOTION)])
        self._most = np.inf if slow is None else LARGEST_GAIN
        self._delays = np.arange(EARLIEST, LATEST, STEP)
        self._equations: list[Array] = []

    @property
    def has_response(self) -> bool:
        """Whether the response changes at all: an effort that no driver measures does not."""
        return bool(np.ptp(np.diff(self._record.p)) > 0.0)

    def step(self) -> bool:
        """Evaluate the next delay of the grid; return whether there is none left."""
        if len(self._equations) < len(self._delays):
            self._equations.append(self._at(self._delays[len(self._equations)]))
        return len(self._equations) == len(self._delays)

    def is_reversed(self) -> bool:
        """Return whether the response is opposite to the torque, by a few delays in a short time.

        At a wrong delay a response may fit the opposite torque as well, so the best fit of this
        sign must be much better than the best fit of the other one.
        """
        equations = np.stack([self._at(delay).sum(axis=0) for delay in _FEW])
        _, gain, explained = solved(equations, self._unknowns)
        unexplained = 1.0 - explained
        is_possible = (gain < 0.0) & (gain > -LARGEST_GAIN)
        opposite = float(unexplained[is_possible].min(initial=1.0))
        same = float(unexplained[gain > 0.0].min(initial=1.0))
        return opposite < LARGEST_REST and opposite < 0.3 * same

    def result(self) -> Fit:
        """Return the fit, after all steps."""
        equations = np.stack(self._equations)
        whole = equations.sum(axis=1)
        delay, gain, explained = self._best(whole)
        parts = np.array([self._best(whole - equations[:, k])[0] for k in range(BLOCKS)])
        error = float(np.sqrt((BLOCKS - 1) * np.var(parts)))
        return Fit(delay, error, gain, explained)

    def _at(self, delay: float) -> Array:
        equations: Array = normal_equations(
            self._record, float(delay), self._span, self._slow, BLOCKS
        )
        return equations

    def _best(self, equations: Array) -> tuple[float, float, float]:
        """Return delay, gain and explained share of the least residual of a grid of equations."""
        residual, gain, explained = solved(equations, self._unknowns)
        residual[(gain <= 0.0) | (gain > self._most)] = np.inf
        k = int(np.argmin(residual))
        if not 0 < k < len(residual) - 1 or not np.isfinite(residual[k - 1 : k + 2]).all():
            return np.nan, float(gain[k]), float(explained[k])
        before, least, after = residual[k - 1 : k + 2]
        curve = before - 2.0 * least + after
        offset = 0.5 * (before - after) / curve if curve > 0.0 else 0.0
        return float(self._delays[k] + offset * STEP), float(gain[k]), float(explained[k])


_FEW = np.arange(0.0, 0.065, 0.005)
"""Delays at which the sign of a response is examined [s]."""

LARGEST_REST = 0.1
"""Largest unexplained share of the response of a drive that counts as reversed."""


@compiled
def solved(equations, unknowns):  # type: ignore[no-untyped-def]
    """Return residual, gain and explained share of each of several normal equations, (3, m).

    Args:
        equations: normal equations, (m, 5, 5).
        unknowns: columns of the unknowns, :data:`TORQUE` first.
    """
    m, n = equations.shape[0], unknowns.shape[0]
    out, L, x, scale = np.zeros((3, m)), np.empty((n, n)), np.empty(n), np.empty(n)
    for k in range(m):
        E = equations[k]
        out[0, k] = np.inf
        if E[MOTION, MOTION] <= 0.0:
            continue
        residual = np.zeros(2)
        for is_whole in range(2):  # first without the torque
            used = np.ones(n, dtype=np.bool_)
            used[0] = is_whole == 1
            for _ in range(MOTION):
                for i in range(n):
                    # Columns may be zero, or dependent in a short record.
                    scale[i] = 1.0 / np.sqrt(max(E[unknowns[i], unknowns[i]], 1e-30))
                    x[i] = E[unknowns[i], MOTION] * scale[i] if used[i] else 0.0
                for i in range(n):
                    for j in range(n):
                        coupled = used[i] and used[j]
                        L[i, j] = E[unknowns[i], unknowns[j]] * scale[i] * scale[j] * coupled
                    L[i, i] = 1.0 + 1e-9
                factor_cholesky(L)
                solve_factored(L, x)
                # Friction dissipates.
                is_final = True
                for i in range(n):
                    if used[i] and x[i] < 0.0 and FRICTION <= unknowns[i] <= DAMPING:
                        used[i] = is_final = False
                if is_final:
                    break
            residual[is_whole] = E[MOTION, MOTION]
            for i in range(n):
                residual[is_whole] -= x[i] * scale[i] * E[unknowns[i], MOTION]
        out[0, k], out[1, k] = residual[1], x[0] * scale[0]
        if residual[0] > 0.0:
            out[2, k] = 1.0 - residual[1] / residual[0]
    return out


@compiled
def momentum(packed, q, v):  # type: ignore[no-untyped-def]
    """Return momentum M v and bias g - Cᵀ v, (n,) each [N·m·s or N·s, N·m or N].

    Args:
        packed: the model with the gravity that the commands contain, as :attr:`Model.packed`.
        q, v: positions and velocities, (n,) each [rad or m, rad/s or m/s].
    """
    model, n = unpacked(packed), q.shape[0]
    p, CTv, g = np.empty(n), np.empty(n), np.empty(n)
    momentum_sweep(model, q, v, new_sweep(model.parent.shape[0]), p, CTv, g)
    return p, g - CTv


@compiled
def normal_equations(record, delay, span, slow, blocks):  # type: ignore[no-untyped-def]
    """Return the normal equations of the module for one delay, (blocks, 5, 5).

    Args:
        record: the samples.
        delay: the delay T [s].
        span: length of the integration in samples.
        slow: least speed of a moving joint [rad/s or m/s].
        blocks: number of successive parts of the record.
    """
    t, p, impulse, q, v = record
    m = t.shape[0]
    late, usable = np.zeros(m), np.zeros(m)
    j = 0
    for k in range(m):
        at = t[k] - delay
        while j < m - 2 and t[j + 1] <= at:
            j += 1
        usable[k] = at >= t[0] and at <= t[m - 1]
        slope = (impulse[j + 1] - impulse[j]) / (t[j + 1] - t[j])
        late[k] = impulse[j] + slope * (at - t[j])
    out, row = np.zeros((blocks, 5, 5)), np.zeros(5)
    run = 0
    for k in range(m):
        is_same = k > 0 and v[k] * v[k - 1] > 0.0
        run = (run + 1 if is_same else 1) if abs(v[k]) > slow else 0
        b = k - span
        if run <= span or b < 0 or usable[k] == 0.0 or usable[b] == 0.0:
            continue
        dt = t[k] - t[b]
        row[0], row[1] = late[k] - late[b], -dt if v[k] > 0.0 else dt
        row[2], row[3], row[4] = q[b] - q[k], dt, p[k] - p[b]
        for i in range(5):
            for other in range(5):
                out[b * blocks // m, i, other] += row[i] * row[other]
    return out


def resonance(t: Array, p: Array, impulse: Array, noise: float, band: tuple[float, float]) -> float:
    """Return the lowest resonance in the response to a torque that sweeps through a band.

    A resonance is a peak of the response of the momentum per impulse that exceeds the medians of
    the lower and the higher frequencies near it by :data:`PEAK`, and the noise by :data:`CLEAR`.

    Args:
        t, p, impulse: see :class:`Record`.
        noise: standard deviation of the noise of p.
        band: ends of the band [Hz].

    Returns:
        The resonance [Hz]; 0 if there is none.
    """
    even = np.linspace(t[0], t[-1], len(t))
    dt = even[1] - even[0]
    response, force = (np.diff(np.interp(even, t, x)) for x in (p, impulse))
    f = np.fft.rfftfreq(len(response), dt)
    Y, U = (np.abs(np.fft.rfft(x - x.mean())) for x in (response, force))
    inside = (f >= band[0]) & (f <= band[1])
    f, Y, U = f[inside], Y[inside], U[inside]
    if len(f) < 5:
        return 0.0
    H = Y / np.maximum(U, 1e-3 * U.max())
    floor = 2.0 * noise * np.sin(np.pi * f * dt) * np.sqrt(len(t))
    for k in range(1, len(f) - 1):
        near = f / f[k]
        below = (near > 1.0 / FAR) & (near < 1.0 / NEAR)
        above = (near > NEAR) & (near < FAR)
        if not (below.any() and above.any()) or H[k] < max(H[k - 1], H[k + 1]):
            continue
        usual = max(np.median(H[below]), np.median(H[above]))
        if H[k] > PEAK * usual and Y[k] > CLEAR * floor[k]:
            return float(f[k])
    return 0.0


PEAK = 3.0
"""Least ratio of the response at a resonance to the median of its neighbourhood."""

NEAR, FAR = 1.2, 1.7
"""Ends of the neighbourhood of a resonance on both sides, as ratios of frequencies."""

CLEAR = 5.0
"""Least ratio of the response at a resonance to the noise."""
