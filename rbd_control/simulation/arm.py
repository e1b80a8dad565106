"""A simulated arm: motors with a watchdog, joint friction, obstacles, pushes, imperfect sensors."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbd_control.dynamics import Model, frame_placement
from rbd_control.errors import InputError, ParameterError
from rbd_control.joint_states import JointSample
from rbd_control.robot.friction import ROWS, Friction
from rbd_control.simulation.plant import Obstacle, Sensors, Surroundings, Truth, advance
from rbd_control.simulation.simulation_parameters import SimulationParameters
from rbd_control.wording import quoted

Array = NDArray[np.float64]


HIGHEST_SPEED = 1e3
"""Speed of a joint above which the simulation resets the arm to rest [rad/s or m/s]."""

LARGEST_PUSH = 1e4
"""Largest accepted component of a push's force [N] or moment [N·m].

Far larger pushes make the state of the arm infinite.
"""


@dataclass(frozen=True, slots=True)
class Contact:
    """Contact of one link with obstacles, or a push on it, during the last step of the simulation.

    All obstacles that a link touches make one contact, each push another.
    """

    link: str
    force: Array
    """(3,) force that the environment applies to the link, world axes [N].

    For obstacles it is the sum of their forces, mean over the step.
    """
    point: Array
    """(3,) contact point in the world frame [m], in the last substep with contact.

    If the link touches obstacles at several points, it is one of them. For a push it is the origin
    of the link at the end of the step.
    """


@dataclass(frozen=True, slots=True)
class _Push:
    link: str
    body: int
    wrench: Array
    until: int


class SimulatedArm:
    """Forward dynamics of an arm; :meth:`step` advances it by one period of the joint states.

    The motors apply the commanded torques, limited to the model's effort limits, until the next
    command. After ``command_timeout`` without a command, and before the first command, the motors
    are off and the joint brakes closed: each brake adds a friction torque of the joint's effort
    limit, or 1000 N·m or N without a limit. The joints have stops at the model's position limits.
    Measured effort is the torque of the motor, so it includes friction. If a joint becomes faster
    than :data:`HIGHEST_SPEED`, as after a strong push, the simulation resets the arm to rest at its
    position before the step.

    Args:
        model: the arm as described; with ``mass_error`` the simulated arm has other masses.
        parameters: see :class:`SimulationParameters`.
        obstacles: the obstacles. Each link is a capsule from its joint to the next (the last link
            to the farthest frame fixed to it), of radius ``link_radius``. A ball touches the arm at
            the deepest point only, a half-space at the far end of every capsule.
        friction: friction of the joints; by default the Coulomb and viscous friction of
            ``parameters``.

    Attributes:
        model: the arm as described.
        parameters: the parameters in use.
        true_model: model of the simulated arm, with the wrong masses of ``mass_error``.
        stops: number of resets to rest because a joint was faster than :data:`HIGHEST_SPEED`.

    Raises:
        InputError: for a model with a floating base.
        ParameterError: for a per-joint parameter of the wrong length, or an initial position
            outside of the limits.
    """

    def __init__(
        self,
        model: Model,
        parameters: SimulationParameters | None = None,
        obstacles: Sequence[Obstacle] = (),
        friction: Friction | None = None,
    ) -> None:
        if model.nq != model.nv:
            raise InputError(f"{model.name}: an arm with a floating base cannot be simulated")
        p = parameters or SimulationParameters()
        n = model.nv
        self.model = model
        self.parameters = p
        q = p.for_joints("initial_position", n)
        for name, low, x, high in zip(
            model.joint_names, model.lower_limit, q, model.upper_limit, strict=True
        ):
            if not low <= x <= high:
                raise ParameterError(
                    f"initial_position of {name} is {x:g}, outside its limits {low:g} to {high:g}"
                )
        random = np.random.default_rng(p.seed)
        self._mass_factor = 1.0 + p.mass_error * random.uniform(-1.0, 1.0, model.arrays.mass.size)
        self.true_model = _with_wrong_masses(model, self._mass_factor)
        self._q, self._v = q, np.zeros(n)
        self._sensors = Sensors(p, q, random)
        self._steps = 0
        self.stops = 0
        self._pushes: dict[str, _Push] = {}
        self._acting: tuple[_Push, ...] = ()
        touched = np.zeros((model.bodies, 3))
        self._truth = Truth(np.zeros(n), np.zeros(n), touched, touched.copy())
        self._torque = np.zeros(n)
        self._queue: deque[Array | None] = deque([None] * p.command_delay)
        self._command: Array | None = None
        self._command_age = 0
        self._timeout = round(p.command_timeout * p.rate)
        self._brake = np.where(np.isfinite(model.effort_limit), model.effort_limit, 1e3)
        bodies, ends = _capsules(model)
        self._surroundings = Surroundings(
            0,
            np.zeros((ROWS, n)),
            np.zeros(n),
            np.array(model.lower_limit),
            np.array(model.upper_limit),
            bodies,
            ends,
            p.link_radius,
            np.array([o.row() for o in obstacles]).reshape(-1, 10),
            np.zeros(0, dtype=np.int64),
            np.zeros((0, 3)),
            np.zeros((0, 6)),
        )
        self.set_friction(friction)
        self._reading: JointSample | None = JointSample(
            0.0, self._sensors.position, np.zeros(n), np.zeros(n)
        )

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self._steps / self.parameters.rate

    @property
    def q(self) -> Array:
        """True positions, (nv,) [rad or m]."""
        return self._q.copy()

    @property
    def v(self) -> Array:
        """True velocities, (nv,) [rad/s or m/s]."""
        return self._v.copy()

    @property
    def torque(self) -> Array:
        """Torque of the motors in the last step, (nv,) [N·m or N]; zero while they are off."""
        return self._torque.copy()

    @property
    def external_torque(self) -> Array:
        """Joint torque that pushes, obstacles and stops apply to the arm, (nv,) [N·m or N].

        It is the mean over the last step.
        """
        return self._truth.external.copy()

    @property
    def friction_torque(self) -> Array:
        """Joint torque of friction and brakes, mean over the last step, (nv,) [N·m or N].

        Its sign is opposite to the velocity's.
        """
        return self._truth.friction.copy()

    @property
    def braked(self) -> bool:
        """Whether motors are off and brakes closed: no command yet, or ``command_timeout`` over."""
        return self._command is None

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """Contacts with obstacles and pushes in the last step, the largest force first."""
        found = [
            Contact(
                self.model.body_links[i],
                self._truth.contact[i].copy(),
                self._truth.point[i].copy(),
            )
            for i in np.flatnonzero(self._truth.contact.any(axis=1))
        ]
        for push in self._acting:
            point = frame_placement(self.model, self._q, push.link)[:3, 3]
            found.append(Contact(push.link, push.wrench[3:].copy(), point))
        found.sort(key=lambda contact: -float(np.linalg.norm(contact.force)))
        return tuple(found)

    @property
    def in_contact(self) -> bool:
        """Whether an obstacle or a push acted on the arm in the last step."""
        return bool(self._acting) or bool(self._truth.contact.any())

    @property
    def contact_link(self) -> str:
        """Link of the contact with the largest force; empty without contact."""
        contacts = self.contacts
        return contacts[0].link if contacts else ""

    @property
    def contact_force(self) -> Array:
        """Largest contact force in the last step, (3,) world axes [N]; zero without contact."""
        contacts = self.contacts
        return contacts[0].force if contacts else np.zeros(3)

    def set_model(self, model: Model) -> None:
        """Simulate the same arm with other inertias, such as a payload, from the next step on.

        State, pushes, random numbers and the wrong masses of ``mass_error`` are kept.

        Args:
            model: the described arm; its joints and links are those of the present model.

        Raises:
            InputError: for a model with other joints or links, or another number of rotors.
        """
        if (model.joint_names, model.body_links) != (self.model.joint_names, self.model.body_links):
            raise InputError(f"{model.name} has other joints or links than the simulated arm")
        if model.arrays.mass.shape != self.model.arrays.mass.shape:
            raise InputError(f"{model.name} has another number of rotors than the simulated arm")
        self.model = model
        self.true_model = _with_wrong_masses(model, self._mass_factor)

    def set_friction(self, friction: Friction | None) -> None:
        """Use another joint friction from the next step on.

        Args:
            friction: the friction; None for the Coulomb and viscous friction of the parameters.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length; nothing is then changed.
        """
        n = self.model.nv
        friction = friction or self.parameters.coulomb_viscous(n)
        self._surroundings = self._surroundings._replace(
            friction=friction.kind, coefficients=friction.coefficients(n)
        )

    def push(
        self,
        link: str,
        force: ArrayLike,
        moment: ArrayLike = (0.0, 0.0, 0.0),
        duration: float = 0.2,
    ) -> None:
        """Apply a constant force and moment to a link for some time, from the next step on.

        The push replaces an earlier push on the same link; a push of zero ends it.

        Args:
            link: name of any link of the description that moves.
            force, moment: force and moment on the link at its origin, (3,) each, world axes, also
                while the link turns [N, N·m].
            duration: length of the push [s], rounded to whole periods, at least one.

        Raises:
            InputError: for an unknown or fixed link, a wrong shape, numbers that are not finite, a
                component above :data:`LARGEST_PUSH`, or a duration that is not positive.
        """
        body = self.model.link_index(link)
        if body < 0:
            raise InputError(f"link {quoted(link)} is fixed to the world: a push does not move it")
        wrench = np.concatenate((_vector("moment", moment), _vector("force", force)))
        if np.abs(wrench).max() > LARGEST_PUSH:
            raise InputError(
                f"the push has {np.abs(wrench).max():.3g} N or N·m; at most {LARGEST_PUSH:g} are "
                "simulated"
            )
        if not (isfinite(duration) and duration > 0.0):
            raise InputError(f"duration is {duration} s; give a positive, finite time")
        self._pushes.pop(link, None)
        if wrench.any():
            until = self._steps + max(1, round(duration * self.parameters.rate))
            self._pushes[link] = _Push(link, body, wrench, until)

    def step(self, tau: ArrayLike | None = None) -> None:
        """Simulate one period of the joint states, and measure a new joint state.

        Args:
            tau: commanded torques of the motors, (nv,) [N·m or N]; None if no command arrives. They
                act ``command_delay`` periods later.

        Raises:
            InputError: for torques of the wrong shape or not finite; the arm is then unchanged.
        """
        p, n = self.parameters, self.model.nv
        if tau is not None:
            tau = np.array(tau, dtype=float)
            if tau.shape != (n,):
                raise InputError(f"tau has shape {tau.shape} but the model has nv = {n}")
            if not all(map(isfinite, tau.tolist())):  # faster than numpy for few joints
                raise InputError(f"tau is {tau}; give finite torques")
        self._take(tau)
        around = self._surroundings
        if self._command is None:
            self._torque = np.zeros(n)
            around = around._replace(brake=self._brake)
        else:
            limit = self.model.effort_limit
            self._torque = np.minimum(np.maximum(self._command, -limit), limit)
        self._pushes = {k: push for k, push in self._pushes.items() if push.until > self._steps}
        self._acting = tuple(self._pushes.values())
        if self._acting:
            places = [self.model.link_placement[push.link][:3, 3] for push in self._acting]
            around = around._replace(
                push_body=np.array([push.body for push in self._acting]),
                push_point=np.array(places),
                push=np.array([push.wrench for push in self._acting]),
            )
        before = self._q.copy()
        advance(
            self.true_model.packed,
            self._q,
            self._v,
            self._torque,
            around,
            1.0 / (p.rate * p.substeps),
            p.substeps,
            self._truth,
        )
        self._stop_if_impossible(before)
        self._steps += 1
        self._reading = self._sensors.read(self.time, self._q, self._v, self._torque)

    def reading(self) -> JointSample | None:
        """Return the joint state measured at :attr:`time`; None if it was lost (``dropout``)."""
        return self._reading

    def _stop_if_impossible(self, before: Array) -> None:
        """Put the arm at rest at positions ``before``, (nv,), if it exceeds HIGHEST_SPEED.

        The same is done if a position is not finite. The forces of the step are then zero.
        """
        slow = all(abs(v) <= HIGHEST_SPEED for v in self._v.tolist())
        if not (slow and all(map(isfinite, self._q.tolist()))):
            self._q[:], self._v[:] = before, 0.0
            for truth in self._truth:
                truth[:] = 0.0
            self.stops += 1

    def _take(self, tau: Array | None) -> None:
        """Pass a command to the motors with its delay, and check the command timeout."""
        self._queue.append(tau)
        arrived = self._queue.popleft()
        if arrived is not None:
            self._command, self._command_age = arrived, 0
            return
        self._command_age += 1
        if self._command_age >= self._timeout:
            self._command = None


def _with_wrong_masses(model: Model, factor: Array) -> Model:
    """Return the model with mass and inertia of each row of ``arrays`` times its factor, (n,)."""
    arrays = model.arrays
    return replace(
        model,
        arrays=arrays._replace(
            mass=arrays.mass * factor,
            first_moment=arrays.first_moment * factor[:, None],
            second_moment=arrays.second_moment * factor[:, None, None],
        ),
    )


def _capsules(model: Model) -> tuple[NDArray[np.int64], Array]:
    """Return the axes of the links: body rows (k,), and far ends in their frames (k, 3) [m].

    Each axis begins at the origin of its body. A body has one for each child, at least one.
    """
    arrays = model.arrays
    bodies, ends = [], []
    for i in range(model.bodies):
        children = [arrays.translation[j] for j in np.flatnonzero(arrays.parent == i)]
        if not children:
            fixed = [
                model.link_placement[k][:3, 3] for k, row in model.link_body.items() if row == i
            ]
            children = [max(fixed, key=lambda x: float(np.linalg.norm(x)))]
        bodies += [i] * len(children)
        ends += children
    return np.array(bodies, dtype=np.int64), np.array(ends).reshape(-1, 3)


def _vector(name: str, value: Any) -> Array:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise InputError(f"{name} is {value}; give three finite numbers")
    return array
