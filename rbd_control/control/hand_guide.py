"""Hand guiding of an arm that takes positions or velocities: an admittance behind an energy tank.

**The admittance.**

With w the wrench of the hand on the tool about the origin of the tool frame, the tare subtracted,
and S the directions that ``motion`` leaves free, the velocity y of the tool along S follows::

    B y_dot + (1 + g) D y = d(Sᵀ w)        twist = S y

(B, D: ``mass`` and ``damping``, ``inertia`` and ``turn_damping``; d: dead zone; g: additional
damping of the tank.) The dead zone shortens force and moment by ``dead_force`` and ``dead_moment``.
Along an axis of the error ellipsoid whose error is larger, it shortens that component by the error,
so that noise and friction move nothing. It only ever reduces ``wᵀ twist``. The ellipsoid is::

    SIGMAS² C + FRICTION² A diag(f²) Aᵀ        A = (J Jᵀ + λ² 1)⁻¹ J
    f_i = (SLIDING + exp(-(v_i / STICKING)²)) times the dry friction of joint i

with C the covariance of the estimate: the friction of a joint at rest may have any value between
its bounds, and that of one that slides is known within :data:`SLIDING`. A hand therefore needs more
force in directions that heavy or rough joints must begin to move.

**The joints.**

With the Jacobian J of the tool, whose angular rows count :data:`TURN_LENGTH` of motion per rad, the
joint velocity is the damped least-squares solution::

    v = Jᵀ (J Jᵀ + λ² 1)⁻¹ twist        λ² = DAMPING² (1 - (σ/NEAR)²) where σ < NEAR

with σ the smallest singular value (Nakamura and Hanafusa 1986). Near a singularity the tool
therefore lags behind the hand, and may leave the locked directions by that lag. A joint at its soft
end is locked and the others continue (:data:`LIMIT_TIME`). Then the whole velocity is scaled until
all speed limits hold, which keeps its direction.

**Passivity.**

An ideal admittance is passive. Delays of drives and of the wrench estimate make it active: a stiff
hand then feels oscillations. The *tank* bounds the energy E that the tool gives to the hand::

    level_dot = wᵀ twist_measured        0 <= level <= capacity        g = GAIN (1 - level/capacity)

The measured twist passes a filter with the time constant of the wrench, so that their product has
the right phase. Energy that the hand gives beyond the capacity is dissipated, so in *any* interval
the tool gives back at most the capacity. While the level falls the damping g rises, and it fades
within :data:`CALM_TIME` only; below half of the capacity the part of the motion that would give
energy fades to zero with the level. The account is as good as the wrench and the time in which a
drive follows (``python -m bench.hand_guide`` measures the true energy).

**The states.** See :class:`HandGuide`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.dynamics import Model, frame_jacobian, frame_placement
from rbd_control.errors import InputError, ParameterError
from rbd_control.parameters import Parameters, parameter

Array = NDArray[np.float64]
State = Literal["idle", "led", "playing", "stopping", "stopped"]
Arm = Literal["position", "velocity", "twist", "torque"]

SIGMAS = 3.0
"""Smallest dead zone in standard deviations of the estimated force or moment."""
FRICTION = 1.5
"""Error of the wrench by unknown friction, in standard deviations: its bound is 1.7 of them."""
SLIDING, STICKING = 0.1, 0.05
"""Error of the friction of a sliding joint as a share, and speed below which it sticks [rad/s]."""
TURN_LENGTH = 0.3
"""Length by which a rotation counts as motion in least squares [m]: the reach of a wrist."""
DAMPING, NEAR = 0.05, 0.1
"""Largest damping λ and the singular value below which it begins [m]: a tool speed of 0.1 m/s then
costs at most 1 rad/s."""
LIMIT_TIME = 0.2
"""Time constant of the approach to the ends of joints and of the box [s]."""
LIMIT_MARGIN = 0.05
"""Distance from the position limits of the joints at which they stop [rad or m]."""
GAIN = 4.0
"""Additional damping of an empty tank, as a multiple of the damping."""
CALM_TIME = 5.0
"""Time constant with which the additional damping fades [s]: long compared with an oscillation."""
VALVE = 0.5
"""Share of the capacity below which motion that gives energy to the hand fades."""
TARE_TIME = 0.5
"""Time at rest without contact over which the tare is averaged [s]."""
TARE_REACH = 0.03
"""Distance of a joint from the posture of the tare beyond which it is taken anew [rad or m]."""
TOUCH_TIME = 0.05
"""Time for which a hand must be felt before it leads [s]; longer than a single wrong verdict."""
FOREIGN_TIME = 0.06
"""Time for which a contact must be on another link before the arm stops [s].

The detector says the link at 50 Hz; one verdict may be wrong while a force rises.
"""
REST_SPEED = 0.02
"""Speed below which a joint is at rest, as for the guard [rad/s or m/s]."""
STOP_TIME = 0.05
"""Time in which the commanded velocity falls to zero in a stop [s]."""
SETTLE_TIME = 1.0
"""Time after which a stop ends although joints still move, or their motion is unknown [s]."""
LONGEST_STEP = 0.1
"""Time between two steps, or two stamps, above which the arm stops [s]: a pause, or a jump."""
FOLLOWING = 0.15
"""Largest distance from commanded to measured position [rad or m]; drives lag by 20 to 100 ms."""
IDLE = "which the arm does not follow: see whether its controller is active"
TRAVEL_TIME = 1.0
"""Time over which the tool of an arm that takes velocities must follow [s].

Older errors fade, because a velocity has no commanded position and drift must not add up.
"""
TRAVEL_SHARE, TRAVEL_LEAST = 0.6, 0.01
"""Largest error of this motion: as a share of the motion in :data:`TRAVEL_TIME` at the largest
commanded speed, and at least [m]. An arm that stands is found in 0.9 s."""
WRENCH_TIME = 0.02
"""Time constant of the wrench estimate: the default ``observer_gain`` of 50 1/s [s]."""

FREE: Mapping[str, str] = MappingProxyType(
    {
        "translation": "the tool keeps its orientation",
        "free": "it also turns",
        "plane": "it moves in the plane whose normal is axis",
        "line": "it moves along axis",
        "rotation": "it turns about its origin only",
    }
)
"""The values of ``motion`` with their texts."""


@dataclass(frozen=True)
class HandGuideParameters(Parameters):
    """Parameters of hand guiding.

    Raises:
        ParameterError: for an ``axis`` that is zero or not three numbers, and for a box with
            wrong sizes or no inside.
    """

    HEADING = "Hand guiding"

    tool_frame: str = parameter(
        "",
        "link that the hand leads: the same as tool_frame of the detector",
        live=False,
        in_description=True,
    )
    hand_links: tuple[str, ...] = parameter(
        (),
        "links on which the detector may find the hand; empty: those that the last three joints "
        "move. A contact on another link stops the arm",
        live=False,
        in_description=True,
    )
    motion: str = parameter(
        "translation",
        "directions in which the hand may lead, not with output float. "
        + "; ".join(f"'{k}': {v}" for k, v in FREE.items()),
        choices=tuple(FREE),
    )
    axis: tuple[float, ...] = parameter(
        (0.0, 0.0, 1.0),
        "normal of the plane, or direction of the line, in axes of the root link; of any length",
        unit="1",
        lower=-1e3,
        upper=1e3,
    )
    damping: float = parameter(
        80.0,
        "force beyond the dead zone for a tool speed of 1 m/s; a lower one is lighter to lead, and "
        "vibrates sooner in a stiff hand: raise it with the delay of the drives",
        unit="N·s/m",
        lower=10.0,
        upper=2000.0,
    )
    mass: float = parameter(
        2.0,
        "virtual mass: mass/damping is the time in which the tool follows the hand, and should be "
        "shorter than the delay of the drives",
        unit="kg",
        lower=0.1,
        upper=100.0,
    )
    turn_damping: float = parameter(
        4.0,
        "moment beyond the dead zone for a turn of 1 rad/s",
        unit="N·m·s/rad",
        lower=0.2,
        upper=200.0,
    )
    inertia: float = parameter(
        0.05, "virtual moment of inertia, as mass", unit="kg·m²", lower=0.001, upper=10.0
    )
    dead_force: float = parameter(
        4.0,
        "force that does not move the tool, at least; raise it if the arm creeps when the hand has "
        "let go, which a wrong friction or payload causes",
        unit="N",
        lower=0.5,
        upper=100.0,
    )
    dead_moment: float = parameter(
        1.0, "moment that does not turn the tool, at least", unit="N·m", lower=0.05, upper=50.0
    )
    tank_capacity: float = parameter(
        0.5,
        "most energy that the tool may give to the hand at a time; a hand of 1 kg that is hit with "
        "1 m/s has 0.5 J",
        unit="J",
        lower=0.05,
        upper=5.0,
    )
    tool_speed: float = parameter(
        0.25,
        "largest speed of the tool, not with output float; 0.25 m/s is the reduced speed of ISO "
        "10218",
        unit="m/s",
        lower=0.01,
        upper=1.0,
    )
    turn_speed: float = parameter(
        0.5, "largest angular speed of the tool", unit="rad/s", lower=0.01, upper=3.0
    )
    joint_speed: float = parameter(
        0.3,
        "largest speed of each joint, as a share of its velocity limit; not with output float",
        lower=0.01,
        upper=1.0,
    )
    largest_force: float = parameter(
        60.0,
        "force on the tool that stops the arm; above what a hand needs, below what the arm may "
        "press",
        unit="N",
        lower=5.0,
        upper=500.0,
    )
    largest_moment: float = parameter(
        20.0, "moment on the tool that stops the arm", unit="N·m", lower=0.5, upper=200.0
    )
    box_lower: tuple[float, ...] = parameter(
        (),
        "lowest x, y, z of the origin of the tool frame, in axes of the root link; empty: no box. "
        "Not with output float",
        unit="m",
        lower=-100.0,
        upper=100.0,
    )
    box_upper: tuple[float, ...] = parameter(
        (), "highest x, y, z, as box_lower", unit="m", lower=-100.0, upper=100.0
    )
    release_time: float = parameter(
        0.5,
        "time without a hand after which guiding ends until the next start; the tool stands as "
        "soon as the force is in the dead zone",
        unit="s",
        lower=0.1,
        upper=60.0,
    )
    input_timeout: float = parameter(
        0.1,
        "age of the contact verdict, the wrench or the joint states, and difference of the stamps "
        "of the last two, above which the arm stops",
        unit="s",
        lower=0.03,
        upper=0.5,
    )
    teach_step: float = parameter(
        0.05,
        "largest motion of a joint between two stored points of the led path",
        unit="rad or m",
        lower=0.005,
        upper=1.0,
    )
    play_speed: float = parameter(
        0.2,
        "largest joint speed when the led path is played",
        unit="rad/s or m/s",
        lower=0.01,
        upper=1.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.axis) != 3 or not any(self.axis):
            raise ParameterError(f"axis is {self.axis}; give three numbers that are not all zero")
        low, high = self.box_lower, self.box_upper
        if len(low) not in (0, 3) or len(high) != len(low):
            raise ParameterError("box_lower and box_upper need three numbers each, or none")
        if any(a >= b for a, b in zip(low, high, strict=True)):
            raise ParameterError(f"box_lower {low} must be below box_upper {high}")

    def directions(self) -> Array:
        """Return the free directions S, (6, k), of twists ``[angular; linear]`` in root axes."""
        axis = np.array(self.axis) / np.linalg.norm(self.axis)
        identity = np.eye(6)
        if self.motion == "free":
            return identity
        if self.motion == "rotation":
            return identity[:, :3]
        if self.motion == "translation":
            return identity[:, 3:]
        # The rows of vt after the first are orthogonal to the axis.
        vt = np.linalg.svd(axis[None])[2]
        rows = vt[:1] if self.motion == "line" else vt[1:]
        return np.concatenate([np.zeros((3, len(rows))), rows.T])


class Command(NamedTuple):
    """What the arm is told, (nv,) each, and the twist of the tool that belongs to it."""

    q: Array
    """Positions [rad or m]."""
    v: Array
    """Velocities [rad/s or m/s]."""
    twist: Array
    """``[angular; linear]`` in axes of the root link, (6,) [rad/s, m/s]."""


class WrenchTank:
    """The energy that the tool may give to the hand, initially full; see the top of the module.

    Args:
        capacity: of the tank [J].

    Attributes:
        level: energy that the tool may still give [J]; negative after more.
        damping: additional damping g.
    """

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.level = capacity
        self.damping = 0.0
        self._twist = np.zeros(6)

    def add(self, wrench: Array, twist: Array, dt: float) -> None:
        """Account for the energy of one period.

        Args:
            wrench: of the hand on the tool, (6,) [N·m, N].
            twist: measured twist of the tool, (6,) in the same axes [rad/s, m/s].
            dt: the period [s].
        """
        self._twist += -math.expm1(-dt / WRENCH_TIME) * (twist - self._twist)
        self.level = min(self.level + float(wrench @ self._twist) * dt, self.capacity)
        missing = 1.0 - min(max(self.level / self.capacity, 0.0), 1.0)
        self.damping = max(self.damping * math.exp(-dt / CALM_TIME), GAIN * missing)

    @property
    def share(self) -> float:
        """Share of a motion that gives energy to the hand that the level permits, 0 to 1."""
        return min(max(self.level / (VALVE * self.capacity), 0.0), 1.0)


class LedPath:
    """The path along which a hand has led the arm, as points that are ``teach_step`` apart.

    Attributes:
        points: the stored positions, (nv,) each [rad or m].
    """

    MOST = 900
    """Number of points above which no more are stored: there and back is one trajectory."""

    def __init__(self) -> None:
        self.points: list[Array] = []

    def add(self, q: Array, step: float) -> None:
        """Store a position if a joint has moved by ``step`` since the last one [rad or m]."""
        if len(self.points) < self.MOST and (
            not self.points or np.abs(q - self.points[-1]).max() >= step
        ):
            self.points.append(np.array(q))

    def there_and_back(
        self, model: Model, q: Array, speed: float, reach: float
    ) -> TrajectoryArrays:
        """Return the way back to the begin of the path, and from there along the whole path.

        Args:
            model: the arm, for the names of its joints.
            q: present position, (nv,) [rad or m].
            speed: largest speed of a joint between two points [rad/s or m/s].
            reach: largest distance of a joint from the path [rad or m]; nothing else of the space
                is known to be free.

        Raises:
            InputError: without a path, and for an arm that is not on it.
        """
        if len(self.points) < 2:
            raise InputError("cannot play: no path is stored; lead the arm first")
        away = np.abs(np.array(self.points) - q)
        nearest = int(np.argmin(away.max(axis=1)))
        worst = int(np.argmax(away[nearest]))
        if away[nearest, worst] > reach:
            name, unit = model.joint_names[worst], model.position_unit(worst)
            raise InputError(
                f"cannot play: {name} is {away[nearest, worst]:.2g} {unit} away from the led path, "
                f"above {reach:.2g} {unit}; move it back, or lead a new path"
            )
        order = [*range(nearest, -1, -1), *range(1, len(self.points))]
        route = np.array([self.points[i] for i in order])
        steps = np.abs(np.diff(route, axis=0, prepend=q[None])).max(axis=1)
        # A point needs a time of its own, also where the arm already is.
        return TrajectoryArrays(route, np.cumsum(np.maximum(steps / speed, 0.05)))


class _Tare:
    """Mean of the wrench while the arm rests untouched."""

    def __init__(self) -> None:
        self.begun, self._sum, self._count = math.nan, np.zeros(6), 0

    def add(self, wrench: Array, now: float) -> Array | None:
        """Add a wrench; return the mean after :data:`TARE_TIME`."""
        if math.isnan(self.begun):
            self.begun = now
        self._sum += wrench
        self._count += 1
        return self._sum / self._count if now - self.begun >= TARE_TIME else None


class HandGuide:
    """Leads an arm by the hand on its tool; see the top of the module.

    =========== =================================== ============================================
    state       the arm                             left by
    =========== =================================== ============================================
    idle        is not commanded: tare, then hand   a hand: led; :meth:`stop`
    led         follows the hand                    no hand, a fault, :meth:`stop`: stopping
    playing     repeats the led path slowly         its end, a contact, a fault: stopping
    stopping    slows down in :data:`STOP_TIME`,    rest: stopped
                at once where it was after a
                collision
    stopped     is not commanded                    :meth:`start`: idle; :meth:`play`: playing
    =========== =================================== ============================================

    A fault is all that makes it unknown whether only a hand touches the tool: no verdict, a contact
    on another link or of level collision, a force above its limit, a clock that jumps, joint states
    or wrenches that end. In ``idle`` it makes the tare invalid, otherwise it stops the arm. A hand
    that has let go leads again only after :meth:`start`: a touch in passing moves nothing.

    Pass inputs as they arrive, and call :meth:`step` periodically. ``now`` is the steady clock [s],
    stamps are by the clock of their senders [s].

    Args:
        model: the arm.
        parameters: of the law; ``tool_frame`` is required.
        arm: what the arm takes. It must follow its positions (:data:`FOLLOWING`) or velocities
            (:data:`TRAVEL_TIME`). One that takes torques floats under its own controller while the
            state is ``led``: :meth:`step` returns no commands, and the states and limits of force
            hold.

        friction: dry friction of each joint, (nv,) [N·m or N]; None for none.

    Attributes:
        parameters: may be replaced at any time, except ``tool_frame`` and ``hand_links``.
        state: the state.
        reason: why the arm is not led: reason of the stop, or what ``idle`` waits for.
        tank: the energy tank.
        path: the led path since the last :meth:`start`.
        force: force and moment that the hand applies beyond the tare, (6,) ``[moment; force]`` in
            axes of the root link [N·m, N].

    Raises:
        InputError: for an unknown or missing ``tool_frame`` or link, and joints that mimic others.
    """

    def __init__(
        self,
        model: Model,
        parameters: HandGuideParameters,
        arm: Arm = "position",
        friction: Array | None = None,
    ) -> None:
        if not parameters.tool_frame:
            raise InputError("tool_frame is empty; give the link that the hand leads")
        if model.nq != model.nv:
            raise InputError("an arm with joints that mimic others cannot be led by hand")
        for link in (parameters.tool_frame, *parameters.hand_links):
            if model.link_index(link) < 0:
                raise InputError(f"{link!r} does not move with the joints; give another link")
        self.model, self.parameters, self.arm = model, parameters, arm
        self._friction = np.zeros(model.nv) if friction is None else np.abs(friction)
        last = model.link_index(parameters.tool_frame)
        given = frozenset(model.link_index(link) for link in parameters.hand_links)
        self._hand_bodies = given or frozenset(range(max(last - 2, 0), last + 1))
        self.state: State = "stopped"
        self.reason = "not started"
        self.tank = WrenchTank(parameters.tank_capacity)
        self.path = LedPath()
        self.force = np.zeros(6)
        self._forget_inputs()
        self._forget_motion()

    def _forget_inputs(self) -> None:
        self._q = self._v = np.zeros(self.model.nv)
        self._wrench, self._covariance = np.zeros(6), np.zeros((6, 6))
        self._state_stamp = self._wrench_stamp = math.nan
        self._state_at = self._wrench_at = self._verdict_at = self._level_at = -math.inf
        self._flag = False
        self._link, self._foreign_since = "", math.nan
        self._is_pressing = False
        """Whether the fault is a contact that is not only the hand's."""
        self._fault = ""

    def _forget_motion(self) -> None:
        n = self.model.nv
        self._tare = _Tare()
        self._offset: Array | None = None
        self._tared_at = self._q
        self._y: Array = np.zeros(6)
        self._behind: Array = np.zeros(6)
        self._fastest = 0.0
        self._command = Command(np.zeros(n), np.zeros(n), np.zeros(6))
        self._touched_since = self._let_go_since = math.nan
        self._stepped = self._stopped_at = math.nan
        self._slowing = np.zeros(n)
        self._route: Trajectory | None = None
        self._played = 0.0

    # Inputs --------------------------------------------------------------------------------------

    def update_verdict(self, flag: bool, now: float) -> None:
        """Store a contact flag of the detector."""
        self._flag, self._verdict_at = flag, now

    def update_level(self, level: str, link: str, now: float) -> None:
        """Store level and link of the present contact, from ``~/contact_stamped`` or an event.

        Args:
            level: ``none``, ``contact`` or ``collision``.
            link: the touched link; empty without contact.
            now: time of receipt.
        """
        self._level_at = now
        if level == "collision":
            self._is_pressing = True
            self._fault = f"collision on {link or 'an unknown link'}"
        is_foreign = level != "none" and self.model.link_body.get(link, -1) not in self._hand_bodies
        if not is_foreign:
            self._foreign_since = math.nan
        elif math.isnan(self._foreign_since):
            self._foreign_since = now
        self._link = link

    def update_wrench(
        self, stamp: float, frame: str, wrench: Array, covariance: Array, now: float
    ) -> None:
        """Store the wrench at the tool.

        Args:
            stamp: of the sample [s].
            frame: name of the frame, without a prefix.
            wrench: ``[moment; force]`` about the origin and along the axes of the tool frame, (6,).
            covariance: of the wrench, (6, 6), in the same axes.
            now: time of receipt.
        """
        if frame != self.parameters.tool_frame:
            self._fault = f"the wrench is at {frame!r}, not at {self.parameters.tool_frame!r}"
            return
        if not (np.isfinite(wrench).all() and np.isfinite(covariance).all()):
            self._fault = "the wrench is not finite"
            return
        self._check_clock("wrenches", stamp - self._wrench_stamp)
        self._wrench, self._covariance = wrench, covariance
        self._wrench_stamp, self._wrench_at = stamp, now

    def update_joints(self, stamp: float, q: Array, v: Array, now: float) -> None:
        """Store a joint state: positions and velocities, (nv,) each [rad or m, rad/s or m/s]."""
        if not (np.isfinite(q).all() and np.isfinite(v).all()):
            self._fault = "the joint states are not finite"
            return
        self._check_clock("joint states", stamp - self._state_stamp)
        self._q, self._v = q, v
        self._state_stamp, self._state_at = stamp, now

    def fail(self, reason: str) -> None:
        """Stop the arm for a reason outside: changed parameters of the detector, a defect."""
        self._fault = reason

    def _check_clock(self, what: str, step: float) -> None:
        if not math.isnan(step) and not 0.0 <= step <= LONGEST_STEP:
            self._fault = f"the clock of the {what} jumped by {step:.3g} s"

    # Orders --------------------------------------------------------------------------------------

    def start(self) -> str:
        """Wait for a tare and then for a hand; return the state.

        Raises:
            InputError: while the arm is led, played or stopping.
        """
        if self.state not in ("stopped", "idle"):
            raise InputError(f"cannot start: the arm is {self.state}")
        self._forget_motion()
        self._fault = ""
        self.tank = WrenchTank(self.parameters.tank_capacity)
        self.path = LedPath()
        self.state, self.reason = "idle", "waits for a tare"
        return self.state

    def play(self) -> str:
        """Repeat the led path with ``play_speed``: back to its begin, then along it.

        Raises:
            InputError: for an arm that takes torques, or twists for more than six joints; while it
                is led or stopping, without a path, and away from the path.
            TrajectoryError: for a path outside of the limits of the joints.
        """
        if self.arm == "torque":
            raise InputError("cannot play: not with output float: the arm takes no positions")
        if self.arm == "twist" and self.model.nv > 6:
            raise InputError("cannot play: not with output twist and more than six joints")
        if self.state not in ("stopped", "idle"):
            raise InputError(f"cannot play: the arm is {self.state}")
        p, names, path = self.parameters, self.model.joint_names, self.path
        points = path.there_and_back(self.model, self._q, p.play_speed, 2.0 * p.teach_step)
        start = DesiredState.at_rest(self._q.copy())
        route = Trajectory.from_points(names, names, points, start=start, limits=self.model)
        self._forget_motion()
        self._fault = ""
        self._command = Command(self._q.copy(), np.zeros(self.model.nv), np.zeros(6))
        self._route = route
        self.state, self.reason = "playing", ""
        return self.state

    def stop(self, reason: str) -> None:
        """Stop the arm, or leave ``idle``; no effect in ``stopping`` and ``stopped``."""
        if self.state == "led" and self.path.points:
            self.path.add(self._q, 1e-3)
        if self.state == "idle":
            self.state, self.reason = "stopped", reason
        elif self.state in ("led", "playing"):
            self.state, self.reason = "stopping", reason
            self._slowing = self._command.v.copy()
            if self._is_pressing:
                # The command is ahead of the arm, and would press it on by the lag of the drives.
                self._slowing = np.zeros(self.model.nv)
                self._command = Command(self._q.copy(), self._slowing, np.zeros(6))
            self._stopped_at = math.nan

    def end(self, reason: str) -> bool:
        """Stop without a ramp; return whether the arm was commanded. The caller sends a hold."""
        was_commanded = self.state in ("led", "playing", "stopping")
        if was_commanded or self.state == "idle":
            self.state, self.reason = "stopped", reason
        return was_commanded

    def reset(self) -> None:
        """Forget all inputs and the led path; the state is then ``stopped``."""
        self.state, self.reason, self.path = "stopped", "not started", LedPath()
        self._forget_inputs()
        self._forget_motion()

    @property
    def command(self) -> Command:
        """The last command."""
        return self._command

    # The step ------------------------------------------------------------------------------------

    def step(self, now: float) -> Command | None:
        """Return what the arm is told now; None while it is not commanded.

        Args:
            now: time on the steady clock [s]; a pause of more than :data:`LONGEST_STEP` since the
                last call is a fault.
        """
        dt = 0.0 if math.isnan(self._stepped) else now - self._stepped
        self._stepped = now
        fault = self._found_fault(now, dt)
        if self.state == "idle":
            self._wait(fault, now)
        elif self.state == "led":
            if fault:
                self.stop(fault)
            else:
                self._lead(now, dt)
        elif self.state == "playing":
            if fault or self._flag:
                self.stop(fault or "contact")
            else:
                self._play_on(dt)
        if self.state == "stopping":
            self._slow_down(now, min(dt, LONGEST_STEP))
        is_commanded = self.arm != "torque" and self.state in ("led", "playing", "stopping")
        return self._command if is_commanded else None

    def _found_fault(self, now: float, dt: float) -> str:
        """Return why it is unknown whether only a hand touches the tool, or an empty text."""
        fault, self._fault = self._fault, ""
        self._is_pressing &= bool(fault)
        if fault or self.missing(now):
            return fault or self.missing(now)
        if not 0.0 <= dt <= LONGEST_STEP:
            return f"the node paused for {dt:.2g} s"
        skew = self._state_stamp - self._wrench_stamp
        if abs(skew) > self.parameters.input_timeout:
            return f"the stamps of joint states and wrench differ by {skew:.2g} s"
        if now - self._foreign_since >= FOREIGN_TIME:
            self._is_pressing = True
            return f"contact on {self._link or 'an unknown link'}, which is not in hand_links"
        return ""

    def missing(self, now: float) -> str:
        """Return which input is missing or older than ``input_timeout``, or an empty text."""
        ages = {
            "verdict about contact": self._verdict_at,
            "level and link of the contact": self._level_at,
            "wrench at the tool": self._wrench_at,
            "joint states": self._state_at,
        }
        for what, heard in ages.items():
            if now - heard > self.parameters.input_timeout:
                return f"no {what}" + (f" for {now - heard:.2g} s" if heard > -math.inf else "")
        return ""

    def _measure(self) -> tuple[Array, Array]:
        """Return the wrench beyond the tare and its error ellipsoid, in axes of the root link."""
        offset = np.zeros(6) if self._offset is None else self._offset
        R = frame_placement(self.model, self._q, self.parameters.tool_frame)[:3, :3]
        T = np.zeros((6, 6))
        T[:3, :3] = T[3:, 3:] = R
        self.force = T @ (self._wrench - offset)
        J = frame_jacobian(self.model, self._q, self.parameters.tool_frame)
        f = self._friction * (SLIDING + np.exp(-np.square(self._v / STICKING)))
        A = _to_wrench(J) * (FRICTION * f)
        return self.force, SIGMAS**2 * (T @ self._covariance @ T.T) + A @ A.T

    def _wait(self, fault: str, now: float) -> None:
        """Take the tare, then wait for a hand; a fault makes the tare invalid."""
        if fault:
            self._forget_tare(fault)
            return
        if self._offset is None:
            fastest = int(np.argmax(np.abs(self._v)))
            speed = float(abs(self._v[fastest]))
            if speed > REST_SPEED or self._flag:
                name, unit = self.model.joint_names[fastest], self.model.position_unit(fastest)
                moves = f"{name} moves at {speed:.2g} {unit}/s"
                self._forget_tare("the tool is touched" if self._flag else moves)
                return
            self.reason = "waits for a tare"
            self._offset, self._tared_at = self._tare.add(self._wrench, now), self._q
            return
        # A hand that takes hold moves the arm a little against its drives.
        if float(np.abs(self._q - self._tared_at).max()) > TARE_REACH:
            self._forget_tare("the arm was moved since")
            return
        self.reason = "waits for a hand on the tool"
        wrench, ellipsoid = self._measure()
        if not self._drive(wrench, ellipsoid).any():
            self._touched_since = math.nan
        elif math.isnan(self._touched_since):
            self._touched_since = now
        # The detector must have found the same contact, on the tool.
        if now - self._touched_since >= TOUCH_TIME and self._flag and self._link:
            self.state, self.reason = "led", ""
            self._y = np.zeros(6)
            n = self.model.nv
            self._command = Command(self._q.copy(), np.zeros(n), np.zeros(6))
            self._let_go_since = math.nan

    def _forget_tare(self, why: str) -> None:
        self._tare, self._offset, self._touched_since = _Tare(), None, math.nan
        self.reason = f"waits for a tare: {why}"

    def _drive(self, wrench: Array, ellipsoid: Array) -> Array:
        """Return the driving wrench along the free directions after the dead zone, (6,)."""
        S, p = self.parameters.directions(), self.parameters
        free = S @ (S.T @ wrench)
        for part, least in ((slice(0, 3), p.dead_moment), (slice(3, 6), p.dead_force)):
            spread, axes = np.linalg.eigh(ellipsoid[part, part])
            excess = np.maximum(np.sqrt(np.maximum(spread, 0.0)) - least, 0.0)
            along = axes.T @ free[part]
            rest = axes @ (along - np.clip(along, -excess, excess))
            size = float(np.linalg.norm(rest))
            free[part] = rest * max(0.0, 1.0 - least / size) if size > 0.0 else 0.0
        return S @ (S.T @ free)

    def _lead(self, now: float, dt: float) -> None:
        """Advance the admittance by ``dt``, and store the command."""
        p = self.parameters
        wrench, ellipsoid = self._measure()
        for what, part, most, unit in (
            ("force", wrench[3:], p.largest_force, "N"),
            ("moment", wrench[:3], p.largest_moment, "N·m"),
        ):
            size = float(np.linalg.norm(part))
            if size > most:
                self.stop(f"{what} of {size:.0f} {unit} on the tool, above {most:g} {unit}")
                return
        drive = self._drive(wrench, ellipsoid)
        # A floating arm needs hardly any force; there the hand has let go when the arm rests.
        floats = self.arm == "torque" and float(np.abs(self._v).max()) > REST_SPEED
        if drive.any() or floats:
            self._let_go_since = math.nan
        elif math.isnan(self._let_go_since):
            self._let_go_since = now
        if now - self._let_go_since >= p.release_time:
            self.stop("the hand has let go")
            return
        self.path.add(self._q, p.teach_step)
        if self.arm == "torque":
            return
        J = frame_jacobian(self.model, self._q, p.tool_frame)
        self.tank.capacity = p.tank_capacity
        self.tank.add(wrench, J @ self._v, dt)
        mass = np.repeat([p.inertia, p.mass], 3)
        damping = (1.0 + self.tank.damping) * np.repeat([p.turn_damping, p.damping], 3)
        S = p.directions()
        y = S @ (S.T @ ((mass * self._y + dt * drive) / (mass + dt * damping)))
        power = float(wrench @ y)
        if power < 0.0:
            y *= self.tank.share
        y = self._within_box(y)
        v = self._joint_velocity(J, y)
        v *= self._speed_share(J @ v, v)
        twist = J @ v
        # The virtual mass must not store speed that limits keep from the tool.
        self._y = y * min(1.0, float(np.linalg.norm(twist)) / max(float(np.linalg.norm(y)), 1e-9))
        q = self._command.q + v * dt if self.arm == "position" else self._q.copy()
        self._command = Command(q, v, twist)
        self._check_following()
        self._check_travel(J, dt)

    def _play_on(self, dt: float) -> None:
        """Advance along the led path by ``dt``."""
        assert self._route is not None
        self._played += dt
        wanted = self._route.sample(self._played)
        J = frame_jacobian(self.model, self._q, self.parameters.tool_frame)
        v = wanted.v_d
        if self.arm != "position":
            # Velocities alone would leave the path; an error of position fades within 0.2 s.
            v = v + (wanted.q_d - self._q) / LIMIT_TIME
        self._command = Command(wanted.q_d, v, J @ v)
        self._check_following()
        if self._played >= self._route.duration:
            self.stop("the path is played")

    def _within_box(self, twist: Array) -> Array:
        """Reduce the velocity towards the faces of the box so that the tool stops there."""
        p = self.parameters
        if not p.box_lower:
            return twist
        at = frame_placement(self.model, self._q, p.tool_frame)[:3, 3]
        room = np.array([np.array(p.box_lower) - at, np.array(p.box_upper) - at]) / LIMIT_TIME
        bounded = twist.copy()
        bounded[3:] = np.clip(twist[3:], np.minimum(room[0], 0.0), np.maximum(room[1], 0.0))
        return bounded

    def _joint_velocity(self, J: Array, twist: Array) -> Array:
        """Return the joint velocity, (nv,), of a twist, with joints at their ends locked."""
        scale = np.repeat([TURN_LENGTH, 1.0], 3)
        J, twist = scale[:, None] * J, scale * twist
        model = self.model
        low = np.minimum((model.lower_limit + LIMIT_MARGIN - self._q) / LIMIT_TIME, 0.0)
        high = np.maximum((model.upper_limit - LIMIT_MARGIN - self._q) / LIMIT_TIME, 0.0)
        is_free, v = np.ones(model.nv, dtype=bool), np.zeros(model.nv)
        while is_free.any():
            rest = twist - J[:, ~is_free] @ v[~is_free]
            v[is_free] = _damped(J[:, is_free], rest)
            beyond = is_free & ((v < low) | (v > high))
            if not beyond.any():
                break
            v[beyond] = np.clip(v, low, high)[beyond]
            is_free &= ~beyond
        return v

    def _speed_share(self, twist: Array, v: Array) -> float:
        """Return the factor, at most 1, with which all limits of speed hold."""
        p = self.parameters
        most = p.joint_speed * self.model.velocity_limit
        ratios = (
            float(np.linalg.norm(twist[3:])) / p.tool_speed,
            float(np.linalg.norm(twist[:3])) / p.turn_speed,
            float((np.abs(v) / most).max()),
            1.0,
        )
        return 1.0 / max(ratios)

    def _check_following(self) -> None:
        behind = np.abs(self._command.q - self._q)
        worst = int(np.argmax(behind))
        if behind[worst] > FOLLOWING:
            name = self.model.joint_names[worst]
            unit = self.model.position_unit(worst)
            self.stop(f"{name} is {behind[worst]:.2g} {unit} away from its command, {IDLE}")

    def _check_travel(self, J: Array, dt: float) -> None:
        """Stop an arm that takes velocities if its tool does not move as commanded."""
        if self.arm == "position":
            return
        scale, kept = np.repeat([TURN_LENGTH, 1.0], 3), math.exp(-dt / TRAVEL_TIME)
        wanted = scale * self._command.twist
        self._behind = kept * self._behind + dt * (wanted - scale * (J @ self._v))
        self._fastest = max(kept * self._fastest, float(np.linalg.norm(wanted)))
        behind = float(np.linalg.norm(self._behind))
        if behind > max(TRAVEL_SHARE * self._fastest * TRAVEL_TIME, TRAVEL_LEAST):
            self.stop(f"the tool is {behind:.2g} m away from its command, {IDLE}")

    def _slow_down(self, now: float, dt: float) -> None:
        """Reduce the velocity within :data:`STOP_TIME`; end when the arm rests."""
        before = self._command
        share = 0.0
        if self._slowing.any():
            fastest = int(np.argmax(np.abs(self._slowing)))
            share = float(before.v[fastest] / self._slowing[fastest]) - dt / STOP_TIME
        v = max(share, 0.0) * self._slowing
        self._command = Command(before.q + v * dt, v, max(share, 0.0) * before.twist)
        if v.any():
            return
        if math.isnan(self._stopped_at):
            self._stopped_at = now
        is_known = now - self._state_at <= self.parameters.input_timeout
        rests = is_known and float(np.abs(self._v).max()) <= REST_SPEED
        if rests or now - self._stopped_at >= SETTLE_TIME:
            self.state = "stopped"


def _to_wrench(J: Array) -> Array:
    """Return the damped map (6, nv) from joint torques to the wrench that explains them best."""
    scale = np.repeat([TURN_LENGTH, 1.0], 3)
    scaled = scale[:, None] * J
    found = np.linalg.solve(scaled @ scaled.T + DAMPING**2 * np.eye(6), scaled)
    return scale[:, None] * found


def _damped(J: Array, twist: Array) -> Array:
    """Return the damped least-squares joint velocity of a twist, both in scaled rows."""
    U, s, Vt = np.linalg.svd(J, full_matrices=False)
    least = float(s[-1]) if s.size else 0.0
    squared = DAMPING**2 * max(0.0, 1.0 - (least / NEAR) ** 2)
    found: Array = Vt.T @ (s / np.maximum(s * s + squared, 1e-12) * (U.T @ twist))
    return found
