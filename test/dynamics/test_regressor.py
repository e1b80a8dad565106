"""The regressor against torques and against Pinocchio's; base parameters and their number.

ROUNDOFF: the sums of ten products per body contain numbers that differ more in size than those of
the torque itself; fast rotors cost two more digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from robots import LOCKED, PinocchioTwin, random_tree_urdf, urdf_path

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor

from .helpers import Array, random_q, relative, tree, units

ROUNDOFF = 1e-11

PINOCCHIO_ORDER = [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]
"""Pinocchio's ten parameters of a body are ours in this order: I_yy stands before I_xz."""


def motion(model: Model, seed: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return random_q(model, rng), *rng.uniform(-2.0, 2.0, (3, model.nv))


every_kind = pytest.mark.parametrize(
    "model",
    [
        tree(i, floating=floating, rotors=rotors)
        for i in range(2)
        for floating in (False, True)
        for rotors in ("", "geared", "reflected")
    ],
    ids=str,
)


@every_kind
def test_torque_is_linear_in_the_parameters(model: Model) -> None:
    """Y pi = M a_r + C v_r + g, and with v_r = v inverse dynamics."""
    q, v, v_r, a_r = motion(model, 1)
    unit, _ = units(dynamics.mass_matrix(model, q))
    pi = dynamics.inertial_parameters(model)
    tau = dynamics.slotine_li_torque(model, q, v, v_r, a_r)
    Y = dynamics.regressor(model, q, v, v_r, a_r)
    assert Y.shape == (model.nv, pi.size)
    assert len(dynamics.inertial_parameter_names(model)) == pi.size
    assert relative(Y @ pi / unit, tau / unit) < ROUNDOFF
    tau = dynamics.inverse_dynamics(model, q, v, a_r)
    assert relative(dynamics.regressor(model, q, v, v, a_r) @ pi / unit, tau / unit) < ROUNDOFF


def test_parameters_by_name() -> None:
    """m, m c and the inertia about the origin: I = I_c + m (cᵀc 1 - c cᵀ)."""
    urdf = """
    <robot name="pendulum"><link name="base"/>
      <link name="bob"><inertial><origin xyz="0.1 0.2 0.3"/><mass value="2"/>
        <inertia ixx="0.3" ixy="0.01" ixz="0.02" iyy="0.4" iyz="0.03" izz="0.5"/></inertial></link>
      <joint name="hinge" type="continuous"><parent link="base"/><child link="bob"/>
        <axis xyz="0 0 1"/></joint></robot>"""
    rotor = Rotor(20.0, np.diag([1e-4, 2e-4, 3e-4]), mass=0.5)
    model = Model.from_urdf(urdf, rotors={"hinge": rotor})
    names = dynamics.inertial_parameter_names(model)
    found = dict(zip(names, dynamics.inertial_parameters(model), strict=True))
    expected = {
        **{"m": 2.0, "mx": 0.2, "my": 0.4, "mz": 0.6},
        **{"Ixx": 0.3 + 2 * 0.13, "Ixy": 0.01 - 2 * 0.02, "Ixz": 0.02 - 2 * 0.03},
        **{"Iyy": 0.4 + 2 * 0.10, "Iyz": 0.03 - 2 * 0.06, "Izz": 0.5 + 2 * 0.05},
    }
    assert found["rotor of hinge Izz"] == pytest.approx(3e-4)
    assert found["rotor of hinge m"] == 0.5
    assert {name: found[f"bob {name}"] for name in expected} == pytest.approx(expected)
    assert names[:10] == tuple(f"bob {name}" for name in expected)
    free = tree(0, floating=True)
    assert dynamics.inertial_parameter_names(free)[0] == "link0 m"


@pytest.mark.parametrize(
    ("name", "floating"),
    [(n, f) for n in ("panda", "ur5", "talos", "go2", "tree") for f in (False, True)],
)
def test_against_pinocchio(name: str, floating: bool) -> None:
    pin: Any = pytest.importorskip("pinocchio")
    if name == "tree":
        source: Any = random_tree_urdf(5, 12, prismatic=0.3, continuous=0.3, fixed=0.4)
    else:
        source = urdf_path(name)
    locked = LOCKED.get(name, {})
    model = Model.from_urdf(source, locked=locked, floating_base=floating)
    twin = PinocchioTwin(source, model.joint_names, locked=locked, floating_base=floating)
    root = ["root_joint"] if floating else []
    joints = [twin.model.getJointId(joint) for joint in (*root, *model.joint_names)]
    columns = np.array([10 * (j - 1) + np.array(PINOCCHIO_ORDER) for j in joints]).ravel()
    pi = np.array([twin.model.inertias[j].toDynamicParameters() for j in joints])
    mine = dynamics.inertial_parameters(model).reshape(-1, 10)
    for parameter, values in zip(mine[:, PINOCCHIO_ORDER].T, pi.T, strict=True):
        assert relative(parameter, values, [values, pi[:, 0]]) < 1e-10
    for seed in range(3):
        q, v, _, a = motion(model, seed)
        Y = pin.computeJointTorqueRegressor(twin.model, twin.data, twin.q(q), twin.v(v), twin.v(a))[
            np.ix_(twin.rows, columns)
        ]
        assert relative(dynamics.regressor(model, q, v, v, a), Y) < 1e-10


# --- Base parameters -----------------------------------------------------------------------------

KNOWN = {
    # 7 n - 4 for revolute joints, and two fewer with the first axis vertical (Mayeda, Yoshida &
    # Osuka 1990); the Panda's 43 are those of Gaz et al. (2019).
    "panda": ({"locked": {**LOCKED["panda"], "panda_finger_joint1": 0.0}}, 43),
    "ur5": ({}, 36),
    "ur5 tilted": ({"gravity": (3.0, 4.0, -8.0)}, 38),
    # All ten of the base, seven of each joint.
    "ur5 floating": ({"floating_base": True}, 52),
    # Of the upper arm, whose axis meets the vertical one, first moments show by weight alone.
    "ur5 weightless": ({"gravity": (0.0, 0.0, 0.0)}, 34),
}


@pytest.mark.parametrize("name", KNOWN)
def test_number_of_base_parameters(name: str) -> None:
    options, count = KNOWN[name]
    model = Model.from_urdf(urdf_path(name.split()[0]), **options)
    for seed in (0, 1):
        base = dynamics.base_parameters(model, seed=seed)
        assert base.columns.size == count
    # The gap is wide: no tolerance in between changes the verdict.
    for tolerance in (1e-5, 1e-11):
        assert np.array_equal(dynamics.base_parameters(model, tolerance=tolerance)[0], base[0])


@every_kind
def test_torques_depend_on_base_parameters_alone(model: Model) -> None:
    base = dynamics.base_parameters(model)
    assert np.array_equal(base.mapping[:, base.columns], np.eye(base.columns.size))
    pi = np.random.default_rng(5).normal(size=base.mapping.shape[1])
    for seed in range(5):
        Y = dynamics.regressor(model, *motion(model, seed))
        tau = Y @ pi
        # Nearly parallel axes lump parameters with factors of thousands.
        size = np.abs(Y[:, base.columns]) @ np.abs(base.mapping @ pi)
        assert relative(Y[:, base.columns] @ (base.mapping @ pi), tau, [tau, size]) < 1e-10
