"""Functions that can be exported, with their arguments, documentation and tracing functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TypeAlias

import numpy as np

from rbd_control.dynamics import Model, inertial_parameters
from rbd_control.dynamics.arguments import link_attachment
from rbd_control.dynamics.kinematics import _body_placements, _frame_jacobians
from rbd_control.dynamics.tracing import FUNCTIONS, Expressions, Results, Tracing, traced
from rbd_control.errors import InputError
from rbd_control.estimation.observers import FIRST_ORDER, observe
from rbd_control.robot.friction import Friction, joint_friction

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Argument:
    """An argument of an exported C function.

    Attributes:
        name: name in C.
        shape: shape of an array that is stored row by row; () for a single number, which only
            an input can be: an output of one number has shape (1,).
        meaning: description with unit, for the documentation in the header.
    """

    name: str
    shape: Shape
    meaning: str

    @property
    def size(self) -> int:
        """Number of entries of the array; 1 for a single number."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class ExportedFunction:
    """A function to be exported.

    Attributes:
        name: name in C, without prefix.
        meaning: description, one sentence, for the documentation in the header.
        inputs: input arguments.
        outputs: output arguments.
        trace: function that takes a ``Tracing`` and the inputs as expressions, and returns the
            outputs as expressions, both in the order of ``inputs`` and ``outputs``.
    """

    name: str
    meaning: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    trace: Callable[..., Results]


NAMES = (
    "dynamics_terms",
    "mass_matrix",
    "gravity_torque",
    "momentum_terms",
    "inverse_dynamics",
    "forward_dynamics",
    "christoffel_symbols",
    "slotine_li_torque",
    "regressor_product",
    "friction_torque",
    "frame_placement",
    "frame_jacobian",
    "momentum_observer",
)
"""Names of all functions that can be exported; by default the order in the C file."""

OF_LINKS = ("frame_placement", "frame_jacobian")
"""Names of the functions that are exported once for each chosen link."""

_TORQUE = "[N m or N]"
_SPEED = "[rad/s or m/s]"
_ACCELERATION = "[rad/s^2 or m/s^2]"


class Catalogue:
    """Describes the functions that can be exported for one robot.

    Args:
        model: the robot.
        friction: friction of the joints, for ``friction_torque`` and ``momentum_observer``.
        links: links whose placement and Jacobian are exported.
    """

    def __init__(self, model: Model, friction: Friction, links: Sequence[str]) -> None:
        self._model, self._friction, self._links = model, friction, tuple(links)
        self._square: Shape = (model.nv, model.nv)
        positions = "joint positions [rad or m]"
        if model.floating_base:
            positions = f"x y z [m] and quaternion x y z w of the base, then {positions}"
        self._q = Argument("q", (model.nq,), positions)
        self._v = self._vector("v", f"joint velocities {_SPEED}")

    def functions(self, names: Sequence[str]) -> list[ExportedFunction]:
        """Return the descriptions of the functions ``names``, in this order.

        The functions in :data:`OF_LINKS` are repeated for each link of the catalogue.

        Raises:
            InputError: for a name that is not in :data:`NAMES`, or an unknown link.
        """
        result: list[ExportedFunction] = []
        for name in names:
            if name not in NAMES:
                raise InputError(f"no function {name!r}; functions are {', '.join(NAMES)}")
            if name in OF_LINKS:
                result += [getattr(self, f"_{name}")(link) for link in self._links]
            else:
                result.append(getattr(self, f"_{name}")())
        return result

    def _vector(self, name: str, meaning: str) -> Argument:
        return Argument(name, (self._model.nv,), meaning)

    def _dynamics_terms(self) -> ExportedFunction:
        return ExportedFunction(
            "dynamics_terms",
            "Compute M, C, C^T v and g of M a + C v + g = tau in one sweep.",
            (self._q, self._v),
            (
                Argument("M", self._square, "mass matrix [kg m^2, kg m or kg]"),
                Argument("C", self._square, "Christoffel-consistent Coriolis matrix"),
                self._vector("CTv", f"C^T v {_TORQUE}"),
                self._vector("g", f"gravity torque {_TORQUE}"),
            ),
            partial(traced, "dynamics_terms"),
        )

    def _mass_matrix(self) -> ExportedFunction:
        return ExportedFunction(
            "mass_matrix",
            "Compute the mass matrix M(q).",
            (self._q,),
            (Argument("M", self._square, "mass matrix, symmetric [kg m^2, kg m or kg]"),),
            partial(traced, "mass_matrix"),
        )

    def _gravity_torque(self) -> ExportedFunction:
        return ExportedFunction(
            "gravity_torque",
            "Compute the gravity torque g(q), which holds the robot up at rest.",
            (self._q,),
            (self._vector("g", f"gravity torque {_TORQUE}"),),
            partial(traced, "gravity_torque"),
        )

    def _momentum_terms(self) -> ExportedFunction:
        return ExportedFunction(
            "momentum_terms",
            "Compute the momentum p = M v, C^T v and g; dp/dt = tau + C^T v - g + tau_ext.",
            (self._q, self._v),
            (
                self._vector("p", "generalized momentum [N m s or N s]"),
                self._vector("CTv", f"C^T v {_TORQUE}"),
                self._vector("g", f"gravity torque {_TORQUE}"),
            ),
            partial(traced, "momentum_terms"),
        )

    def _inverse_dynamics(self) -> ExportedFunction:
        return ExportedFunction(
            "inverse_dynamics",
            "Compute the torque of a motion: tau = M a + C v + g.",
            (self._q, self._v, self._vector("a", f"joint accelerations {_ACCELERATION}")),
            (self._vector("tau", f"joint torques without friction {_TORQUE}"),),
            partial(traced, "inverse_dynamics"),
        )

    def _forward_dynamics(self) -> ExportedFunction:
        return ExportedFunction(
            "forward_dynamics",
            "Compute the acceleration that a torque causes: M a + C v + g = tau.",
            (self._q, self._v, self._vector("tau", f"joint torques less friction {_TORQUE}")),
            (self._vector("a", f"joint accelerations {_ACCELERATION}"),),
            partial(traced, "forward_dynamics"),
        )

    def _christoffel_symbols(self) -> ExportedFunction:
        n = self._model.nv
        meaning = "Gamma_ijk at (i nv + j) nv + k; C_ij is the sum of Gamma_ijk v_k over k"
        return ExportedFunction(
            "christoffel_symbols",
            "Compute the Christoffel symbols of the first kind.",
            (self._q,),
            (Argument("Gamma", (n, n, n), meaning),),
            partial(traced, "christoffel_symbols"),
        )

    @property
    def _references(self) -> tuple[Argument, Argument]:
        return (
            self._vector("v_r", f"reference velocities {_SPEED}"),
            self._vector("a_r", f"reference accelerations {_ACCELERATION}"),
        )

    def _slotine_li_torque(self) -> ExportedFunction:
        return ExportedFunction(
            "slotine_li_torque",
            "Compute tau = M a_r + C(q, v) v_r + g, the model part of the Slotine-Li law.",
            (self._q, self._v, *self._references),
            (self._vector("tau", f"joint torques without friction {_TORQUE}"),),
            partial(traced, "slotine_li_torque"),
        )

    def _regressor_product(self) -> ExportedFunction:
        meaning = (
            "inertial parameters, ten for each body: m, m c (3), Ixx Ixy Ixz Iyy Iyz Izz about the "
            "origin and in the axes of its link's frame [kg, kg m, kg m^2]"
        )
        pi = Argument("pi", (inertial_parameters(self._model).size,), meaning)
        return ExportedFunction(
            "regressor_product",
            "Compute Y(q, v, v_r, a_r) pi = M a_r + C v_r + g for inertial parameters pi.",
            (self._q, self._v, *self._references, pi),
            (self._vector("tau", f"joint torques without friction {_TORQUE}"),),
            _regressor_product,
        )

    def _friction_torque(self) -> ExportedFunction:
        return ExportedFunction(
            "friction_torque",
            "Compute the friction of the joints, a part of the motors' torque.",
            (self._v,),
            (self._vector("tau", f"friction torques, of the sign of v {_TORQUE}"),),
            lambda t, v: _friction_torque(t, self._friction, v),
        )

    def _frame_placement(self, link: str) -> ExportedFunction:
        return ExportedFunction(
            f"frame_placement_{link}",
            f"Compute where the link '{link}' is.",
            (self._q,),
            (Argument("T", (4, 4), "transform from its frame to the world's; position in [m]"),),
            self._of_frame(_frame_placement, link),
        )

    def _frame_jacobian(self, link: str) -> ExportedFunction:
        meaning = "[angular; linear velocity] = J v, world axes, at the origin of the link"
        return ExportedFunction(
            f"frame_jacobian_{link}",
            f"Compute the Jacobian of the link '{link}'.",
            (self._q,),
            (Argument("J", (6, self._model.nv), meaning),),
            self._of_frame(_frame_jacobian, link),
        )

    def _of_frame(self, trace: Callable[..., Results], link: str) -> Callable[..., Results]:
        body, placement = link_attachment(self._model, link)
        return lambda t, q: trace(t, body, placement, q)

    def _momentum_observer(self) -> ExportedFunction:
        p, rate = "momentum [N m s or N s]", f"its rate without external torque {_TORQUE}"
        r = f"residual, the estimated external torque {_TORQUE}"
        return ExportedFunction(
            "momentum_observer",
            "Advance the first-order momentum observer by one sample.",
            (
                self._q,
                self._v,
                self._vector("tau", f"measured joint torques {_TORQUE}"),
                Argument("dt", (), "time since the last sample, above zero [s]"),
                self._vector("gain", "observer gains, above zero [1/s]"),
                self._vector("last_p", f"of the last sample: {p}"),
                self._vector("last_rate", f"of the last sample: {rate}"),
                self._vector("last_r", f"of the last sample: {r}"),
            ),
            (self._vector("p", p), self._vector("rate", rate), self._vector("r", r)),
            lambda t, *given: _momentum_observer(t, self._friction, *given),
        )


def _regressor_product(t: Tracing, q: Expressions, *more: Expressions) -> Results:
    """Return the expressions of the torque Y pi, (nv,), in a tuple of one.

    ``more`` is v, v_r, a_r, (nv,) each, and the inertial parameters pi, ten for each body, see
    :func:`~rbd_control.dynamics.inertial_parameters`. The Slotine-Li torque is linear in pi.
    Computed with pi as the inertial parameters it equals Y pi with the regressor Y, at a tenth of
    the cost of Y.
    """
    *motion, pi = more
    model, q = t.with_parameters(q, pi)
    tau = t.zeros(t.model.nv)
    t.run(FUNCTIONS["slotine_li_torque"].kernel)(model, q, *motion, tau)
    return (tau,)


def _friction_torque(t: Tracing, friction: Friction, v: Expressions) -> Results:
    """Return the expressions of the friction torques, (nv,), with the sign of v, in a tuple."""
    coefficients = friction.coefficients(v.size).astype(object)
    run = t.run(joint_friction)
    torques = [run(friction.kind, coefficients, i, v[i]) for i in range(v.size)]
    return (np.array(torques, dtype=object),)


def _frame_placement(t: Tracing, body: int, placement: np.ndarray, q: Expressions) -> Results:
    """Return the homogeneous transform (4, 4) from a frame to the world, in a tuple of one.

    ``placement`` is the frame in its body, (4, 4); body -1 is the world.
    """
    T = t.zeros(1, 4, 4)
    T[0] = np.eye(4).astype(object)
    if body >= 0:
        t.run(_body_placements)(t.constants, q[None], body, T)
    return (T[0] @ t.exact(placement),)


def _frame_jacobian(t: Tracing, body: int, placement: np.ndarray, q: Expressions) -> Results:
    """Return the Jacobian (6, nv) of a frame, angular rows first, in a tuple of one.

    It is world-aligned at the origin of the frame. ``placement`` is the frame in its body, (4, 4);
    body -1 is the world.
    """
    J = t.zeros(1, 6, t.model.nv)
    if body >= 0:
        origin = tuple(t.exact(placement[:3, 3]))
        t.run(_frame_jacobians)(t.constants, q[None], body, origin, J)
    return (J[0],)


def _momentum_observer(t: Tracing, friction: Friction, *given: Expressions) -> Results:
    """Return the momentum p, its rate tau - friction + Cᵀv - g, and the residual, (nv,) each.

    The residual is the estimate of the external joint torque by the first-order momentum observer.
    ``given`` holds q, v, tau, dt [s], gain [1/s], and p, rate and residual of the previous sample.
    The velocity is taken without delay against the torque.
    """
    q, v, tau, dt, gain, last_p, last_rate, last_r = given
    p, CTv, g = traced("momentum_terms", t, q, v)
    (losses,) = _friction_torque(t, friction, v)
    rate = tau - losses + CTv - g
    r = t.zeros(v.size)
    for i in range(r.size):
        state = SimpleNamespace(p=last_p[i], rate=last_rate[i], drive=0.0, residual=last_r[i])
        design = SimpleNamespace(gain=gain[i], delay=0.0)
        t.run(observe)(FIRST_ORDER, design, state, dt[()], p[i], rate[i], 0.0, 0.0)
        r[i] = state.residual
    return p, rate, r
