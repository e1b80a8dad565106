"""Geared rotors against the full mechanism, in which each rotor is a link of its own.

The full mechanism is a URDF with one more link and joint per rotor, driven by the constraint
``q_rotor = n q_joint``: with ``v_full = S v`` every result is ``Sᵀ (...) S``, which does not use
the tested code.
"""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import (
    Model,
    Rotor,
    christoffel_symbols,
    coriolis_transpose_product,
    dynamics_terms,
    forward_dynamics,
    gravity_torque,
    inverse_dynamics,
    mass_matrix,
    momentum,
    with_rotors,
)
from rbd_control.errors import InputError


def relative(actual: np.ndarray, expected: np.ndarray) -> float:
    return np.abs(actual - expected).max() / np.abs(expected).max()


class Mechanism:
    """A random tree with rotors on most joints, and its twin with the rotors as links."""

    def __init__(self, seed: int, floating_base: bool = False) -> None:
        rng = np.random.default_rng(seed)
        text = random_tree_urdf(seed, 5, prismatic=0.2, branching=0.4)
        tree = ET.fromstring(text)
        self.rotors: dict[str, Rotor] = {}
        for joint in tree.findall("joint"):
            if joint.get("type") == "fixed" or rng.random() < 0.25:
                continue
            self.rotors[joint.attrib["name"]] = self._add(tree, joint, rng)
        self.bare = Model.from_urdf(text, floating_base=floating_base)
        self.geared = Model.from_urdf(text, rotors=self.rotors, floating_base=floating_base)
        self.full = Model.from_urdf(
            ET.tostring(tree, encoding="unicode"), floating_base=floating_base
        )
        self.S = np.zeros((self.full.nv, self.bare.nv))
        if floating_base:
            self.S[:6, :6] = np.eye(6)
        for name in self.bare.joint_names:
            column = self.bare.joint_index(name)
            self.S[self.full.joint_index(name), column] = 1.0
            if name in self.rotors:
                row = self.full.joint_index(f"turn_{name}")
                self.S[row, column] = self.rotors[name].gear_ratio
        self.q = rng.uniform(-2.0, 2.0, self.bare.nq)
        if floating_base:
            self.q[3:7] /= np.linalg.norm(self.q[3:7])
        self.v, self.a, self.v_r = rng.normal(size=(3, self.bare.nv))

    @staticmethod
    def _add(tree: ET.Element, joint: ET.Element, rng: np.random.Generator) -> Rotor:
        name = joint.get("name")
        inertia = np.diag(rng.uniform(0.005, 0.01, 3))
        inertia[0, 1] = inertia[1, 0] = 4e-4
        mass, ratio = rng.uniform(0.1, 0.5), rng.uniform(2.0, 60.0)
        com, axis = rng.normal(size=3) * 0.1, rng.normal(size=3)

        def numbers(x: np.ndarray) -> str:
            return " ".join(repr(float(k)) for k in x)

        link = ET.SubElement(tree, "link", name=f"rotor_{name}")
        inertial = ET.SubElement(link, "inertial")
        ET.SubElement(inertial, "mass", value=repr(float(mass)))
        entries = {
            f"i{a}{b}": repr(float(inertia[i, j]))
            for i, a in enumerate("xyz")
            for j, b in enumerate("xyz")
            if i <= j
        }
        ET.SubElement(inertial, "inertia", **entries)
        ET.SubElement(tree, "link", name=f"mount_{name}")
        mount = ET.SubElement(tree, "joint", name=f"fix_{name}", type="fixed")
        ET.SubElement(mount, "parent", link=joint.find("parent").get("link"))
        ET.SubElement(mount, "child", link=f"mount_{name}")
        if joint.find("origin") is not None:
            mount.append(joint.find("origin"))
        turn = ET.SubElement(tree, "joint", name=f"turn_{name}", type="continuous")
        ET.SubElement(turn, "parent", link=f"mount_{name}")
        ET.SubElement(turn, "child", link=f"rotor_{name}")
        ET.SubElement(turn, "origin", xyz=numbers(com))
        ET.SubElement(turn, "axis", xyz=numbers(axis))
        return Rotor(ratio, inertia, axis=axis, mass=mass, com=com)

    def full_q(self) -> np.ndarray:
        if not self.bare.floating_base:
            return self.S @ self.q
        return np.concatenate([self.q[:7], self.S[6:, 6:] @ self.q[7:]])


@pytest.fixture(scope="module", params=(0, 1, 4))
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    return Mechanism(request.param, floating_base=request.param >= 4)


# The reference sums terms n² = 3600 times as large as the result's smallest, and cancels them.
ROUNDING = 1e-10


def test_terms(mechanism: Mechanism) -> None:
    S, q, v = mechanism.S, mechanism.q, mechanism.v
    full = dynamics_terms(mechanism.full, mechanism.full_q(), S @ v)
    ours = dynamics_terms(mechanism.geared, q, v)
    assert relative(ours.M, S.T @ full.M @ S) < ROUNDING
    assert relative(ours.C, S.T @ full.C @ S) < ROUNDING
    assert relative(ours.CTv, (S.T @ full.C @ S).T @ v) < ROUNDING
    assert relative(ours.g, S.T @ full.g) < ROUNDING
    np.testing.assert_array_equal(mass_matrix(mechanism.geared, q), ours.M)
    np.testing.assert_allclose(gravity_torque(mechanism.geared, q), ours.g, rtol=1e-12, atol=1e-12)
    assert relative(coriolis_transpose_product(mechanism.geared, q, v), ours.CTv) < ROUNDING
    assert relative(momentum(mechanism.geared, q, v), ours.M @ v) < ROUNDING


def test_christoffel_symbols(mechanism: Mechanism) -> None:
    S, q = mechanism.S, mechanism.q
    full = christoffel_symbols(mechanism.full, mechanism.full_q())
    expected = np.einsum("ai,bj,ck,abc->ijk", S, S, S, full, optimize=True)
    assert relative(christoffel_symbols(mechanism.geared, q), expected) < ROUNDING


def test_inverse_and_forward_dynamics(mechanism: Mechanism) -> None:
    S, q, v, a = mechanism.S, mechanism.q, mechanism.v, mechanism.a
    full = inverse_dynamics(mechanism.full, mechanism.full_q(), S @ v, S @ a)
    tau = inverse_dynamics(mechanism.geared, q, v, a)
    assert relative(tau, S.T @ full) < ROUNDING
    assert relative(forward_dynamics(mechanism.geared, q, v, tau), a) < ROUNDING


def test_reflected_inertia_is_a_constant_diagonal(mechanism: Mechanism) -> None:
    """The usual approximation adds only n² times the inertia about the axis."""
    q, v, a = mechanism.q, mechanism.v, mechanism.a
    approximate = with_rotors(mechanism.bare, mechanism.rotors, reflected=True)
    expected = np.zeros(mechanism.bare.nv)
    for name, rotor in mechanism.rotors.items():
        axis = rotor.axis / np.linalg.norm(rotor.axis)
        inertia = rotor.gear_ratio**2 * axis @ rotor.inertia @ axis
        expected[mechanism.bare.joint_index(name)] = inertia
    bare, ours = (dynamics_terms(m, q, v) for m in (mechanism.bare, approximate))
    assert relative(ours.M, bare.M + np.diag(expected)) < ROUNDING
    # A general inertia that turns with the rotor is gyroscopic, but not for one turning about a
    # fixed axis.
    assert relative(ours.C, bare.C) < ROUNDING
    np.testing.assert_allclose(ours.g, bare.g, rtol=1e-12, atol=1e-12)
    tau = inverse_dynamics(approximate, q, v, a)
    assert relative(tau, inverse_dynamics(mechanism.bare, q, v, a) + expected * a) < ROUNDING
    assert relative(forward_dynamics(approximate, q, v, tau), a) < ROUNDING


@pytest.mark.parametrize(
    ("joint", "rotor", "named"),
    [
        ("elbow", Rotor(10.0, 0.001), "no joint 'elbow'"),
        ("joint0", Rotor(0.0, 0.001), "gear ratio 0.0"),
        ("joint0", Rotor(10.0, -0.001), "inertia"),
        ("joint0", Rotor(10.0, 0.001, axis=(0, 0, 0)), "axis"),
    ],
)
def test_bad_rotors_are_named(joint: str, rotor: Rotor, named: str) -> None:
    model = Model.from_urdf(random_tree_urdf(0, 2))
    with pytest.raises(InputError, match=named):
        with_rotors(model, {joint: rotor})
