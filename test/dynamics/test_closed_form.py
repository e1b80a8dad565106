"""Lynch & Park's closed form: its own identities, then the recursions it must agree with.

ROUNDOFF: products of dense matrices of some fifty rows lose two digits more than the recursions;
a rotor with gear ratio 60 has terms in c that cancel to another two.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from robots import PinocchioTwin, random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, with_rotors
from rbd_control.errors import InputError

from .helpers import Array, cross_matrix, random_q, relative, units

ROUNDOFF = 1e-11


def robot(seed: int, *, floating: bool, geared: bool) -> tuple[Model, np.random.Generator]:
    rng = np.random.default_rng(seed)
    urdf = random_tree_urdf(seed, 7, prismatic=0.3, branching=0.4, continuous=0.2)
    model = Model.from_urdf(urdf, floating_base=floating, gravity=rng.uniform(-10, 10, 3))
    if geared:
        inertia = np.diag([2e-4, 2e-4, 3e-4])
        rotors = {
            name: Rotor(
                rng.uniform(-60.0, 60.0), inertia, rng.normal(size=3), 0.2, rng.normal(size=3)
            )
            for name in model.joint_names[::2]
        }
        model = with_rotors(model, rotors)
    return model, rng


every_kind = pytest.mark.parametrize(
    ("seed", "floating", "geared"),
    [(seed, floating, geared) for seed in (0, 1, 2) for floating in (0, 1) for geared in (0, 1)],
)


@every_kind
def test_identities_of_the_operators(seed: int, floating: bool, geared: bool) -> None:
    """W is nilpotent, L = 1 + W + W² + ..., V = L A v, T = ½ Vᵀ G V, [ad_V] V = 0."""
    model, rng = robot(seed, floating=floating, geared=geared)
    q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
    form = dynamics.closed_form(model, q, v)
    size = len(form.W)
    power, total = np.eye(size), np.zeros((size, size))
    for _ in range(size // 6):
        total += power
        power = power @ form.W
    assert not power.any()
    assert relative(form.L, total) < ROUNDOFF
    assert relative(form.L @ (np.eye(size) - form.W), np.eye(size)) < ROUNDOFF
    assert relative(form.V, form.W @ form.V + form.A @ v) < ROUNDOFF
    assert np.abs(form.ad_V @ form.V).max() < ROUNDOFF * np.abs(form.V).max() ** 2
    kinetic = dynamics.kinetic_energy(model, q, v)
    assert relative(0.5 * form.V @ form.G @ form.V, kinetic) < ROUNDOFF
    # Frames at the centres of mass: LP (9.41) has no off-diagonal blocks.
    blocks = form.G.reshape(size // 6, 6, size // 6, 6)
    assert not blocks[:, :3, :, 3:].any()


@every_kind
def test_terms_are_those_of_the_recursions(seed: int, floating: bool, geared: bool) -> None:
    model, rng = robot(seed, floating=floating, geared=geared)
    q = random_q(model, rng)
    v, a = rng.uniform(-2.0, 2.0, (2, model.nv))
    M, C, _, g = dynamics.dynamics_terms(model, q, v)
    unit, square = units(M)
    terms = dynamics.closed_form_terms(model, q, v)
    assert relative(terms.M / square, M / square) < ROUNDOFF
    assert relative(terms.c / unit, C @ v / unit) < ROUNDOFF
    assert relative(terms.g / unit, g / unit) < ROUNDOFF
    wrenches = {link: rng.normal(size=6) for link in model.link_names[::3]}
    for pushed in (None, wrenches):
        tau = dynamics.inverse_dynamics(model, q, v, a, pushed)
        mine = dynamics.closed_form_inverse_dynamics(model, q, v, a, pushed)
        assert relative(mine / unit, tau / unit) < ROUNDOFF
        found = dynamics.forward_dynamics_by_mass_matrix(model, q, v, tau, pushed)
        assert relative(found * unit, a * unit) < ROUNDOFF
        again = dynamics.forward_dynamics(model, q, v, tau, pushed)
        assert relative(found * unit, again * unit) < ROUNDOFF


@pytest.mark.parametrize("floating", [False, True])
def test_against_pinocchio(floating: bool) -> None:
    pin = pytest.importorskip("pinocchio")
    urdf = random_tree_urdf(5, 9, prismatic=0.3, branching=0.4, continuous=0.2)
    model = Model.from_urdf(urdf, floating_base=floating)
    twin = PinocchioTwin(urdf, model.joint_names, floating_base=floating)
    rng = np.random.default_rng(6)
    q = random_q(model, rng)
    v, a = rng.uniform(-2.0, 2.0, (2, model.nv))
    tau = pin.rnea(twin.model, twin.data, twin.q(q), twin.v(v), twin.v(a))[twin.rows]
    unit, _ = units(dynamics.mass_matrix(model, q))
    mine = dynamics.closed_form_inverse_dynamics(model, q, v, a)
    assert relative(mine / unit, tau / unit) < 1e-10


@pytest.mark.parametrize("seed", [0, 1])
def test_coriolis_torque_is_that_of_the_christoffel_symbols(seed: int) -> None:
    """LP (9.85): c_i = Gamma_ijk v_j v_k."""
    model, rng = robot(seed, floating=False, geared=True)
    q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
    unit, _ = units(dynamics.mass_matrix(model, q))
    c = dynamics.christoffel_symbols(model, q) @ v @ v
    assert relative(dynamics.closed_form_terms(model, q, v).c / unit, c / unit) < ROUNDOFF


# --- The source's own examples, and what is wrong in its print -----------------------------------


def home(model: Model, i: int) -> Array:
    """M_i: the frame at the centre of mass of link i, in the zero position."""
    placement = dynamics.frame_placement(model, np.zeros(model.nq), model.joint_links[i]).copy()
    com = model.arrays.first_moment[i] / model.arrays.mass[i]
    placement[:3, 3] += placement[:3, :3] @ com
    return placement


def adjoint_of_inverse(T: Array) -> Array:
    R, p = T[:3, :3], T[:3, 3]
    zero = np.zeros((3, 3))
    return np.block([[R.T, zero], [-R.T @ cross_matrix(p), R.T]])


def test_joint_twists_are_in_the_frame_of_their_own_link() -> None:
    """A_i = Ad_{M_i⁻¹}(S_i), LP (9.40); (9.51) prints M_{i-1}, the text "frame {i-1}"."""
    model, _ = robot(3, floating=False, geared=False)
    form = dynamics.closed_form(model, np.zeros(model.nq), np.zeros(model.nv))
    printed_fits = []
    for i, link in enumerate(model.joint_links):
        J = dynamics.frame_jacobian(model, np.zeros(model.nq), link)[:, i]
        origin = dynamics.frame_placement(model, np.zeros(model.nq), link)[:3, 3]
        screw = np.append(J[:3], J[3:] + np.cross(origin, J[:3]))  # S_i, in the space frame
        own = form.A[6 * i : 6 * i + 6, i]
        assert relative(own, adjoint_of_inverse(home(model, i)) @ screw) < ROUNDOFF
        parent = model.arrays.parent[i]
        if parent >= 0:
            other = adjoint_of_inverse(home(model, parent)) @ screw
            printed_fits.append(relative(own, other) < 1e-3)
    assert not any(printed_fits)


def test_the_printed_sign_of_the_joint_brackets_is_wrong() -> None:
    """LP (9.83) as printed, G L [ad_Av] W - [ad_V]ᵀ G, is not the Coriolis torque."""
    model, rng = robot(4, floating=False, geared=False)
    q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
    A, G, W, L, V, ad_V, ad_Av, _ = dynamics.closed_form(model, q, v)
    c = dynamics.coriolis_matrix(model, q, v) @ v
    bracket = G @ L @ ad_Av @ W
    assert relative(A.T @ L.T @ (-bracket - ad_V.T @ G) @ V, c) < ROUNDOFF
    assert relative(A.T @ L.T @ (bracket - ad_V.T @ G) @ V, c) > 0.1


LENGTH = (0.7, 0.4)
MASS = (1.3, 0.9)
# Two links with point masses at their ends, in the x-y plane, gravity along -y (LP 9.1.1).
PLANAR_2R = f"""
<robot name="planar_2r">
  <link name="base"/><link name="first"/><link name="second"/>
  <link name="first_mass"><inertial><mass value="{MASS[0]}"/>
    <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>
  <link name="second_mass"><inertial><mass value="{MASS[1]}"/>
    <inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/></inertial></link>
  <joint name="theta1" type="continuous"><parent link="base"/><child link="first"/>
    <axis xyz="0 0 1"/></joint>
  <joint name="theta2" type="continuous"><parent link="first"/><child link="second"/>
    <origin xyz="{LENGTH[0]} 0 0"/><axis xyz="0 0 1"/></joint>
  <joint name="end1" type="fixed"><parent link="first"/><child link="first_mass"/>
    <origin xyz="{LENGTH[0]} 0 0"/></joint>
  <joint name="end2" type="fixed"><parent link="second"/><child link="second_mass"/>
    <origin xyz="{LENGTH[1]} 0 0"/></joint>
</robot>"""


@pytest.mark.parametrize("seed", range(3))
def test_planar_2r(seed: int) -> None:
    """LP after (9.8), with cos theta2 in M_12 and the signs of tau_2's last terms corrected.

    Printed: cos theta1 in M_12, -m2 L1 L2 v1 v2 sin theta2 for +m2 L1 L2 v1² sin theta2, and minus
    before tau_2's gravity.
    """
    model = Model.from_urdf(PLANAR_2R, gravity=(0.0, -9.81, 0.0))
    rng = np.random.default_rng(seed)
    (t1, t2), (v1, v2) = q, v = rng.uniform(-3.0, 3.0, (2, 2))
    (l1, l2), (m1, m2) = LENGTH, MASS
    inner = (m1 + m2) * l1**2 + m2 * (2.0 * l1 * l2 * math.cos(t2) + l2**2)
    mixed = m2 * (l1 * l2 * math.cos(t2) + l2**2)
    h = m2 * l1 * l2 * math.sin(t2)
    g2 = m2 * 9.81 * l2 * math.cos(t1 + t2)
    terms = dynamics.closed_form_terms(model, q, v)
    # A few dozen products of numbers of order one.
    assert relative(terms.M, np.array([[inner, mixed], [mixed, m2 * l2**2]])) < 1e-14
    assert relative(terms.c, np.array([-2.0 * h * v1 * v2 - h * v2**2, h * v1**2])) < 1e-14
    g = np.array([(m1 + m2) * l1 * 9.81 * math.cos(t1) + g2, g2])
    assert relative(terms.g, g) < 1e-14


# --- Gearing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [100.0, -50.0, 1.0])
def test_apparent_inertia(ratio: float) -> None:
    """Lynch & Park 8.9.2: with a gear ratio G a rotor adds G² I_rotor to the inertia at the joint.

    This is exact for the first joint of a fixed base, with tau = G tau_motor.
    """
    rotor = 3e-5
    model = Model.from_urdf(PLANAR_2R)
    geared = with_rotors(model, {"theta1": Rotor(ratio, rotor)})
    q, v, a = np.random.default_rng(7).uniform(-2.0, 2.0, (3, 2))
    apparent = np.diag([ratio**2 * rotor, 0.0])
    M = dynamics.mass_matrix(model, q)
    for of in (dynamics.mass_matrix, lambda m, q: dynamics.closed_form_terms(m, q, v).M):
        assert relative(of(geared, q), M + apparent) < 1e-14
    more = dynamics.closed_form_inverse_dynamics(geared, q, v, a)
    less = dynamics.closed_form_inverse_dynamics(model, q, v, a)
    assert relative(more, less + apparent @ a) < 1e-13


def test_apparent_inertia_of_all_joints_is_the_approximation() -> None:
    """On moving links ``reflected`` rotors add G² I_rotor; exact rotors add further terms."""
    model, rng = robot(1, floating=False, geared=False)
    ratios, inertias = rng.uniform(20.0, 100.0, (2, model.nv)) * np.array([[1.0], [1e-6]])
    rotors = {
        name: Rotor(*numbers)
        for name, *numbers in zip(model.joint_names, ratios, inertias, strict=True)
    }
    q, v = random_q(model, rng), np.zeros(model.nv)
    expected = dynamics.mass_matrix(model, q) + np.diag(ratios**2 * inertias)
    reflected = dynamics.closed_form_terms(with_rotors(model, rotors, reflected=True), q, v).M
    exact = dynamics.closed_form_terms(with_rotors(model, rotors), q, v).M
    assert relative(reflected, expected) < ROUNDOFF
    assert 1e-6 < relative(exact, expected) < 0.1


def newton_euler_with_gearing(
    model: Model, rotors: dict[str, Rotor], q: Array, v: Array, a: Array
) -> Array:
    """Lynch & Park 8.9.3 for a serial chain, rotor i on link i - 1, all from the URDF's numbers.

    tau_i = A_iᵀ F_iL + G_i R_iᵀ F_iR: the torque of motor i is its joint's tau_i / G_i.
    """
    n, arrays = model.nv, model.arrays

    def ad(V: Array) -> Array:
        w, u = cross_matrix(V[:3]), cross_matrix(V[3:])
        return np.block([[w, np.zeros((3, 3))], [u, w]])

    def turned(axis: Array, angle: float) -> Array:
        S = cross_matrix(axis)
        return np.eye(3) + math.sin(angle) * S + (1.0 - math.cos(angle)) * S @ S

    def frame(R: Array, p: Array) -> Array:
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = R, p
        return T

    def inertia_about_origin(i: int) -> Array:
        S, h = arrays.second_moment[i], cross_matrix(arrays.first_moment[i])
        return np.block([[np.trace(S) * np.eye(3) - S, h], [-h, arrays.mass[i] * np.eye(3)]])

    Ad_link, Ad_rotor, F_link, F_rotor, A, R = [], [], [], [], [], []
    V, V_dot = np.zeros(6), np.append(np.zeros(3), -model.gravity)
    for i, name in enumerate(model.joint_names):
        rotor, home_R, home_p = rotors[name], arrays.rotation[i], arrays.translation[i]
        axis, ratio = np.asarray(rotor.axis), rotor.gear_ratio
        R.append(np.append(axis, np.zeros(3)))
        T = frame(home_R @ turned(axis, ratio * q[i]), home_p + home_R @ np.asarray(rotor.com))
        Ad_rotor.append(adjoint_of_inverse(T))
        V_R = Ad_rotor[i] @ V + R[i] * ratio * v[i]
        V_dot_R = Ad_rotor[i] @ V_dot + ad(V_R) @ R[i] * ratio * v[i] + R[i] * ratio * a[i]
        G_R = np.diag([*np.diag(np.asarray(rotor.inertia)), *3 * [rotor.mass]])
        F_rotor.append(G_R @ V_dot_R - ad(V_R).T @ G_R @ V_R)

        axis = arrays.axis[i]
        A.append(np.append(axis, np.zeros(3)))
        Ad_link.append(adjoint_of_inverse(frame(home_R @ turned(axis, q[i]), home_p)))
        V, before = Ad_link[i] @ V + A[i] * v[i], V_dot
        V_dot = Ad_link[i] @ before + ad(V) @ A[i] * v[i] + A[i] * a[i]
        G = inertia_about_origin(i)
        F_link.append(G @ V_dot - ad(V).T @ G @ V)
    tau = np.empty(n)
    F = np.zeros(6)
    for i in reversed(range(n)):
        F = F + F_link[i]
        rotor_ratio = rotors[model.joint_names[i]].gear_ratio
        tau[i] = A[i] @ F + rotor_ratio * R[i] @ F_rotor[i]
        F = Ad_link[i].T @ F + Ad_rotor[i].T @ F_rotor[i]
    return tau


def test_newton_euler_with_gearing() -> None:
    urdf = random_tree_urdf(8, 5, branching=0.0, prismatic=0.0, fixed=0.0)
    model = Model.from_urdf(urdf)
    rng = np.random.default_rng(9)
    rotors = {}
    for name in model.joint_names:
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        # Inertias unlike each other: a rotor need not be round.
        inertia = np.diag(rng.uniform(2e-4, 3e-4, 3))
        rotors[name] = Rotor(rng.uniform(-80.0, 80.0), inertia, axis, 0.3, rng.normal(size=3))
    geared = with_rotors(model, rotors)
    q, v, a = rng.uniform(-2.0, 2.0, (3, model.nv))
    expected = newton_euler_with_gearing(model, rotors, q, v, a)
    for of in (dynamics.closed_form_inverse_dynamics, dynamics.inverse_dynamics):
        assert relative(of(geared, q, v, a), expected) < ROUNDOFF


# --- Bad input -----------------------------------------------------------------------------------


def test_unknown_links_are_refused() -> None:
    model = Model.from_urdf(PLANAR_2R)
    for of in (dynamics.closed_form_inverse_dynamics, dynamics.forward_dynamics_by_mass_matrix):
        with pytest.raises(InputError, match="no link 'elbw'; links are base, first"):
            of(model, *np.zeros((3, 2)), {"elbw": np.zeros(6)})
