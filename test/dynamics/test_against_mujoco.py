"""Mass matrix and bias forces against MuJoCo, which reads the URDF by itself.

MuJoCo turns each inertia into its principal axes first; the rest is roundoff, some 1e-13 of the
measure that ``helpers.py`` defines.
"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from robots import LOCKED, random_tree_urdf, urdf_path

from rbd_control.dynamics import Model, dynamics_terms, inverse_dynamics

from .helpers import random_q, relative, units

mujoco: Any = pytest.importorskip("mujoco")

PROMISED = 1e-10


def for_mujoco(urdf: str, locked: list[str]) -> str:
    """Return the URDF without geometry, joint friction and mimics."""
    robot = ElementTree.fromstring(urdf)
    for link in robot.findall("link"):
        for tag in ("visual", "collision"):
            for element in link.findall(tag):
                link.remove(element)
    for joint in robot.findall("joint"):
        for tag in ("dynamics", "mimic"):
            for element in joint.findall(tag):
                joint.remove(element)
        if joint.get("name") in locked:
            joint.set("type", "fixed")
    extension = ElementTree.SubElement(robot, "mujoco")
    ElementTree.SubElement(extension, "compiler", balanceinertia="false", inertiafromgeom="false")
    return ElementTree.tostring(robot, encoding="unicode")


@pytest.mark.parametrize("name", ["panda", "ur5", "talos", "tree"])
def test_mass_matrix_and_bias_forces(name: str) -> None:
    if name == "tree":
        urdf = random_tree_urdf(10, 12, prismatic=0.3, continuous=0.3, fixed=0.4)
    else:
        urdf = urdf_path(name).read_text(encoding="utf-8")
    locked = list(LOCKED.get(name, {}))
    model = Model.from_urdf(urdf, locked=dict.fromkeys(locked, 0.0))
    theirs = mujoco.MjModel.from_xml_string(for_mujoco(urdf, locked))
    data = mujoco.MjData(theirs)
    rows = np.array([theirs.joint(joint).dofadr[0] for joint in model.joint_names])
    assert theirs.nv == model.nv
    rng = np.random.default_rng(11)
    for _ in range(3):
        q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
        data.qpos[rows], data.qvel[rows] = q, v
        mujoco.mj_forward(theirs, data)
        columns = np.zeros((theirs.nv, theirs.nv))
        for column, unit_vector in zip(columns, np.eye(theirs.nv), strict=True):
            mujoco.mj_mulM(theirs, data, column, unit_vector)
        M, bias = columns[np.ix_(rows, rows)], data.qfrc_bias[rows]
        unit, square = units(M)
        terms = dynamics_terms(model, q, v)
        assert relative(terms.M / square, M / square) < PROMISED
        assert relative((terms.C @ v + terms.g) / unit, bias / unit) < PROMISED
        assert relative(inverse_dynamics(model, q, v, 0.0 * v) / unit, bias / unit) < PROMISED
