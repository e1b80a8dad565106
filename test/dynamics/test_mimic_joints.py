"""Mimic joints: every quantity is that of the free robot with q = G x + offset, v = G x_dot.

G is constant, so that M = Gᵀ M_free G, the Christoffel symbols contract with G in all three places,
and C, momentum, gravity and Jacobians follow. The free robot is the same description without its
``<mimic>`` elements, which other tests compare with Pinocchio.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from robots import random_tree_urdf, urdf_path
from urdf_texts import LIMIT
from urdf_texts import joint as joint_text
from urdf_texts import link as link_text
from urdf_texts import robot as robot_text

from rbd_control import dynamics
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ModelError, ModelWarning

from .helpers import random_q, relative

CLOSE = 1e-12
"""Both ways compute the same sums in another order; quantities are of the size of 1 to 1000."""

MIMICS = {
    # follower: leader, multiplier, offset
    "joint2": ("joint5", -0.5, 0.3),  # the leader comes later
    "joint3": ("joint0", 2.0, 0.0),
    "joint4": ("joint3", 0.7, -0.2),  # a chain
    "joint7": ("joint6", 1.0, 0.1),  # on one branch in the serial robot
}


def with_mimics(urdf: str, mimics: dict[str, tuple[str, float, float]]) -> str:
    robot = ElementTree.fromstring(urdf)
    for joint in robot.findall("joint"):
        for element in joint.findall("mimic"):
            joint.remove(element)
        if joint.get("name") in mimics:
            leader, multiplier, offset = mimics[str(joint.get("name"))]
            values = {"joint": leader, "multiplier": repr(multiplier), "offset": repr(offset)}
            ElementTree.SubElement(joint, "mimic", values)
    return ElementTree.tostring(robot, encoding="unicode")


class Pair:
    """A robot with mimics, the same without, and the map between their coordinates."""

    def __init__(self, urdf: str, mimics: dict[str, tuple[str, float, float]], floating: bool):
        self.text = with_mimics(urdf, mimics)
        gravity = (1.0, -2.0, -9.0)
        self.model = Model.from_urdf(self.text, floating_base=floating, gravity=gravity)
        self.free = Model.from_urdf(with_mimics(urdf, {}), floating_base=floating, gravity=gravity)
        self.root = 6 if floating else 0
        self.G = np.zeros((self.free.nv, self.model.nv))
        self.G[: self.root, : self.root] = np.eye(self.root)
        self.offset = np.zeros(self.free.nq)
        for name in self.free.joint_names:
            leader, ratio, offset = name, 1.0, 0.0
            while leader in mimics:
                leader, by, more = mimics[leader]
                ratio, offset = ratio * by, offset + ratio * more
            row = self.free.joint_index(name)
            self.G[row, self.model.joint_index(leader)] = ratio
            self.offset[row + self.free.nq - self.free.nv] = offset
        rng = np.random.default_rng(5)
        self.x = random_q(self.model, rng)
        self.v, self.a, self.w, self.b = rng.uniform(-2.0, 2.0, (4, self.model.nv))
        self.q = self.free_q(self.x)

    def free_q(self, x: np.ndarray) -> np.ndarray:
        extra = self.model.nq - self.model.nv
        head, tail = x[..., : self.root + extra], x[..., self.root + extra :]
        moved = tail @ self.G[self.root :, self.root :].T
        return np.concatenate([head, moved], axis=-1) + self.offset


@cache
def pair(name: str) -> Pair:
    if name == "panda":
        urdf = urdf_path("panda").read_text(encoding="utf-8")
        return Pair(urdf, {"panda_finger_joint2": ("panda_finger_joint1", 1.0, 0.0)}, False)
    branching = 0.0 if "serial" in name else 0.6
    urdf = random_tree_urdf(21, 9, branching=branching, prismatic=0.3, continuous=0.2)
    return Pair(urdf, MIMICS, "floating" in name)


NAMES = ("serial", "tree", "floating tree", "panda")
names = pytest.mark.parametrize("name", NAMES)


@names
def test_matrices(name: str) -> None:
    p, G = pair(name), pair(name).G
    terms = dynamics.dynamics_terms(p.model, p.x, p.v)
    free = dynamics.dynamics_terms(p.free, p.q, G @ p.v)
    assert relative(terms.M, G.T @ free.M @ G) < CLOSE
    assert relative(terms.C, G.T @ free.C @ G) < CLOSE
    assert relative(terms.CTv, G.T @ free.CTv) < CLOSE
    assert relative(terms.g, G.T @ free.g) < CLOSE
    assert relative(dynamics.mass_matrix(p.model, p.x), terms.M) < CLOSE
    momentum = dynamics.momentum_terms(p.model, p.x, p.v)
    assert relative(momentum.p, terms.M @ p.v) < CLOSE
    assert relative(momentum.CTv, terms.CTv) < CLOSE
    Gamma = dynamics.christoffel_symbols(p.model, p.x)
    free_Gamma = dynamics.christoffel_symbols(p.free, p.q)
    assert relative(Gamma, np.einsum("ijk,ia,jb,kc->abc", free_Gamma, G, G, G)) < CLOSE
    assert relative(Gamma @ p.v, terms.C) < CLOSE
    T, V = dynamics.kinetic_energy, dynamics.potential_energy
    assert T(p.model, p.x, p.v) == pytest.approx(T(p.free, p.q, G @ p.v), rel=CLOSE)
    assert V(p.model, p.x) == pytest.approx(V(p.free, p.q), rel=CLOSE)


@names
def test_inverse_and_forward_dynamics(name: str) -> None:
    p, G, last = pair(name), pair(name).G, pair(name).model.link_names[-1]
    wrenches = {last: np.array([1.0, -2.0, 3.0, 10.0, -5.0, 20.0])}
    for pushed in (None, wrenches):
        tau = dynamics.inverse_dynamics(p.model, p.x, p.v, p.a, pushed)
        free = dynamics.inverse_dynamics(p.free, p.q, G @ p.v, G @ p.a, pushed)
        assert relative(tau, G.T @ free) < CLOSE
        a = dynamics.forward_dynamics(p.model, p.x, p.v, tau, pushed)
        assert relative(a, p.a) < 1e-10  # the condition number of M takes two digits
    tau = dynamics.slotine_li_torque(p.model, p.x, p.v, p.w, p.b)
    free = dynamics.slotine_li_torque(p.free, p.q, G @ p.v, G @ p.w, G @ p.b)
    assert relative(tau, G.T @ free) < CLOSE
    Y = dynamics.regressor(p.model, p.x, p.v, p.w, p.b)
    assert relative(Y @ dynamics.inertial_parameters(p.model), tau) < CLOSE
    assert len(dynamics.inertial_parameter_names(p.model)) == Y.shape[1]


@names
def test_frames(name: str) -> None:
    p = pair(name)
    for link in p.model.link_names:
        placement = dynamics.frame_placement
        assert relative(placement(p.model, p.x, link), placement(p.free, p.q, link)) < CLOSE
        J, rate = dynamics.frame_jacobian, dynamics.frame_jacobian_rate
        free = J(p.free, p.q, link) @ p.G
        assert np.abs(J(p.model, p.x, link) - free).max() < CLOSE * 10
        free = rate(p.free, p.q, p.G @ p.v, link) @ p.G
        assert np.abs(rate(p.model, p.x, p.v, link) - free).max() < CLOSE * 100


REFUSED: dict[str, Callable[[Pair], Any]] = {
    "GDAHJ": lambda p: dynamics.mass_matrix_gdahj(p.model, p.x),
    "trace of M": lambda p: dynamics.mass_matrix_trace(p.model, p.x),
    "interbody forces": lambda p: dynamics.interbody_forces(p.model, p.x, p.v, p.a),
    "composite inertias": lambda p: dynamics.composite_inertias(p.model, p.x),
    "spatial operators": lambda p: dynamics.soa.spatial_operators(p.model, p.x),
}


@pytest.mark.parametrize("algorithm", REFUSED)
def test_algorithms_for_bodies_with_a_joint_each_refuse(algorithm: str) -> None:
    with pytest.raises(InputError, match="mimics"):
        REFUSED[algorithm](pair("tree"))


def test_other_algorithms_agree() -> None:
    """Those that accept mimic joints: another factorization, and the closed form."""
    p = pair("tree")
    Cv = dynamics.coriolis_matrix(p.model, p.x, p.v) @ p.v
    C = dynamics.coriolis_matrix_de_luca_ferrajoli(p.model, p.x, p.v)
    assert relative(C @ p.v, Cv) < 1e-10
    assert relative(dynamics.closed_form_terms(p.model, p.x, p.v).c, Cv) < 1e-10
    momentum = dynamics.centroidal_momentum_matrix(p.model, p.x) @ p.v
    assert relative(momentum, dynamics.centroidal_momentum(p.model, p.x, p.v)) < 1e-10


def text(**mimics: tuple[str, float, float]) -> str:
    return with_mimics(random_tree_urdf(3, 4, branching=0.0, prismatic=0.0), mimics)


def test_a_locked_follower_leaves_its_leader() -> None:
    mimics = {"joint2": ("joint1", 2.0, 0.5), "joint3": ("joint2", -1.0, 0.1)}
    model = Model.from_urdf(text(**mimics), locked={"joint2": 0.4})
    same = Model.from_urdf(text(), locked={"joint2": 0.4, "joint3": -0.3})
    assert model.joint_names == same.joint_names == ("joint0", "joint1")
    q = np.array([0.2, -0.7])
    assert relative(dynamics.mass_matrix(model, q), dynamics.mass_matrix(same, q)) < CLOSE


def limited(
    follower: str, multiplier: float, offset: float, *more: str, leader: str = LIMIT
) -> str:
    """Return an arm whose elbow, with limits of its own, mimics its shoulder."""
    shoulder = joint_text("shoulder", "base", "upper_arm", more=leader)
    mimic = f'<mimic joint="shoulder" multiplier="{multiplier}" offset="{offset}"/>'
    elbow = joint_text("elbow", "upper_arm", "forearm", more=follower + mimic)
    return robot_text(
        link_text("base", ""), link_text("upper_arm"), link_text("forearm"), shoulder, elbow, *more
    )


def limit(lower: float, upper: float, velocity: float, effort: float) -> str:
    return f'<limit lower="{lower}" upper="{upper}" velocity="{velocity}" effort="{effort}"/>'


@pytest.mark.parametrize(
    ("follower", "multiplier", "offset", "lower", "upper", "velocity"),
    [
        (limit(-0.2, 0.25, 0.5, 0.0), 1.0, 0.0, -0.2, 0.25, 0.5),
        (limit(-0.2, 0.25, 0.5, 1.0), -0.5, 0.1, -0.3, 0.6, 1.0),
        (limit(-9.0, 0.25, 9.0, 1.0), 1.0, 0.0, -1.0, 0.25, 3.0),  # of the leader where tighter
        (limit(0.0, 0.0, 0.0, 0.0), 1.0, 0.0, -1.0, 2.0, 3.0),  # not filled in
    ],
    ids=["tighter", "negative multiplier and offset", "partly wider", "not filled in"],
)
def test_limits_of_a_mimic_joint_are_limits_of_its_leader(
    follower: str, multiplier: float, offset: float, lower: float, upper: float, velocity: float
) -> None:
    """The limits are ``LIMIT`` of the leader, and (p - offset) / multiplier of the mimic joint."""
    model = Model.from_urdf(limited(follower, multiplier, offset))
    assert model.remarks == ()
    found = (model.lower_limit[0], model.upper_limit[0], model.velocity_limit[0])
    assert found == pytest.approx((lower, upper, velocity), rel=1e-15)  # rounding
    assert model.effort_limit[0] == 40.0


def test_limits_through_a_chain_of_mimic_joints() -> None:
    """The last joint moves by 2 (-0.5 x + 0.1) - 0.3 for a shoulder that moves by x."""
    mimic = '<mimic joint="elbow" multiplier="2" offset="-0.3"/>'
    hand = joint_text("wrist", "forearm", "hand", more=limit(-0.4, 0.4, 0.5, 1.0) + mimic)
    model = Model.from_urdf(limited(limit(-2.0, 2.0, 9.0, 1.0), -0.5, 0.1, link_text("hand"), hand))
    assert model.lower_limit[0] == pytest.approx(-0.5)
    assert model.upper_limit[0] == pytest.approx(0.3)
    assert model.velocity_limit[0] == 0.5


def test_contradictory_limits_of_a_mimic_joint_are_ignored_with_a_warning() -> None:
    """Such descriptions exist: a multiplier of -1 whose sign was forgotten in the limits."""
    closing = limited(limit(0.0, 0.8, 0.5, 1.0), -1.0, 0.0, leader=limit(0.0, 0.8, 1.0, 1.0))
    with pytest.warns(ModelWarning, match="'elbow'.*leave 'shoulder' no range of its limits 0 to"):
        model = Model.from_urdf(closing)
    assert (model.lower_limit[0], model.upper_limit[0]) == (0.0, 0.8)
    assert model.velocity_limit[0] == 0.5


def test_a_circle_of_mimics_is_refused() -> None:
    circle = text(joint1=("joint2", 1.0, 0.0), joint2=("joint1", 1.0, 0.0))
    with pytest.raises(ModelError, match="circle: joint1 -> joint2 -> joint1"):
        Model.from_urdf(circle)


def test_a_mimic_without_leader_moves_by_itself_with_a_warning() -> None:
    alone = text(joint2=("finger", 1.0, 0.0))
    with pytest.warns(ModelWarning, match="'joint2' mimics 'finger', which is no joint"):
        model = Model.from_urdf(alone)
    assert "joint2" in model.joint_names
    with pytest.raises(ModelError, match="no joint"):
        Model.from_urdf(alone, strict=True)
