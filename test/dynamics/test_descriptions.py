"""All published robots of example-robot-data that Pinocchio loads, mimic joints included.

Pinocchio's full tree, where each mimic joint is free, is reduced to the leaders by the constant G
of ``q_free = G q + offset``: M = Gᵀ M G, C = Gᵀ C G, g = Gᵀ g.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from robots import PinocchioTwin

from rbd_control import dynamics
from rbd_control.dynamics import Model
from rbd_control.errors import ModelWarning

from .helpers import relative

PROMISED = 1e-10

ROOT = "cmeel.prefix/share/example-robot-data/robots"

WITHOUT = {
    "hector_description/robots/quadrotor_base.urdf": "no movable joint",
    "iris_description/robots/iris_simple.urdf": "no movable joint",
    "ur_description/urdf/ur3.urdf": "no links",
}
"""Descriptions without an arm in them, and why they are refused; Pinocchio cannot load the last."""


def folder() -> Path:
    try:
        return Path(str(distribution("example-robot-data").locate_file(ROOT)))
    except PackageNotFoundError:
        return Path("/nonexistent")


FILES = sorted(str(path.relative_to(folder())) for path in folder().rglob("*.urdf"))
"""All descriptions; none where the package is not installed."""

if not FILES:
    pytest.skip("example-robot-data is not installed", allow_module_level=True)


def mimics_of(urdf: str) -> dict[str, tuple[str, float, float]]:
    """Leader, multiplier and offset of each mimic joint whose leader exists."""
    robot = ElementTree.fromstring(urdf)
    names = {joint.get("name") for joint in robot.findall("joint")}
    result = {}
    for joint in robot.findall("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and joint.get("type") != "fixed" and mimic.get("joint") in names:
            values = float(mimic.get("multiplier", "1")), float(mimic.get("offset", "0"))
            result[str(joint.get("name"))] = (str(mimic.get("joint")), *values)
    return result


def free_joints(
    model: Model,
    joints: Mapping[int, str],
    rows: int,
    mimics: Mapping[str, tuple[str, float, float]],
) -> tuple[np.ndarray, np.ndarray]:
    """Return G and the offset of ``q_free = G q + offset``, where each mimic joint is free.

    Args:
        model: the model, in which mimic joints follow.
        joints: names of the free joints by their row.
        rows: number of rows.
        mimics: see :func:`mimics_of`.
    """
    G, offset = np.zeros((rows, model.nv)), np.zeros(rows)
    for row, joint in joints.items():
        leader, ratio = joint, 1.0
        while leader in mimics:
            leader, by, more = mimics[leader]
            offset[row] += ratio * more
            ratio *= by
        G[row, model.joint_index(leader)] = ratio
    return G, offset


def load(name: str) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        return Model.from_urdf(folder() / name)


@pytest.mark.parametrize("name", sorted(set(FILES) - set(WITHOUT)))
def test_as_in_pinocchio(name: str) -> None:
    pin: Any = pytest.importorskip("pinocchio")
    model, urdf = load(name), (folder() / name).read_text(encoding="utf-8")
    joints, mimics = tuple(model.joint_row), mimics_of(urdf)
    twin = PinocchioTwin(urdf, joints)
    G, offset = free_joints(model, dict(enumerate(joints)), len(joints), mimics)
    assert twin.model.nv == len(joints)
    rng = np.random.default_rng(4)
    # At rest and with motion, well inside of a turn.
    q, v, a = rng.uniform(-1.0, 1.0, (3, model.nv))
    q_, v_, a_ = twin.q(G @ q + offset), twin.v(G @ v), twin.v(G @ a)
    upper = np.triu(pin.crba(twin.model, twin.data, q_))
    M = (upper + np.triu(upper, 1).T)[np.ix_(twin.rows, twin.rows)]
    C = pin.computeCoriolisMatrix(twin.model, twin.data, q_, v_)[np.ix_(twin.rows, twin.rows)]
    g = pin.computeGeneralizedGravity(twin.model, twin.data, q_)[twin.rows]
    bias = pin.rnea(twin.model, twin.data, q_, v_, 0.0 * a_)[twin.rows]
    terms = dynamics.dynamics_terms(model, q, v)
    assert relative(terms.M, G.T @ M @ G) < PROMISED
    # Of the largest: some robots are symmetrical, so that all of g is roundoff.
    scale = np.append(G.T @ bias, np.diag(G.T @ M @ G))
    assert relative(terms.C, G.T @ C @ G, size=np.append(G.T @ C @ G, scale)) < PROMISED
    assert relative(terms.g, G.T @ g, size=scale) < PROMISED
    ours = dynamics.inverse_dynamics(model, q, v, 0.0 * a)
    assert relative(ours, G.T @ bias, size=scale) < PROMISED
    assert relative(terms.CTv, terms.C.T @ v, size=scale) < PROMISED
