"""URDF to bodies: fixed and locked joints, payload, limits, encodings and depth."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from robots import LOCKED, ROBOTS, PinocchioTwin, random_tree_urdf, urdf_path
from urdf_texts import arm, assert_names, elbow, joint, link, robot

from rbd_control.dynamics.inertia import spatial_inertia
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import PRISMATIC, REVOLUTE
from rbd_control.errors import InputError

# Merging is a few products of 4x4 matrices whose entries are of order one: 1e-12 is generous.
MERGING = 1e-12


def assert_same_bodies(model: Model, twin: PinocchioTwin) -> None:
    """Every moving body, joint frame and limit is the one Pinocchio made of the same text."""
    pin = twin.model
    link_frame: Any = pytest.importorskip("pinocchio").FrameType.BODY
    assert pin.nv == model.nv
    linear_first = [3, 4, 5, 0, 1, 2]
    arrays = model.arrays
    for name, body in zip(model.joint_names, model.joint_links, strict=True):
        row, other = model.joint_index(name), pin.getJointId(name)
        assert model.link_body[body] == row
        pseudo = np.zeros((4, 4))
        pseudo[:3, :3] = arrays.second_moment[row]
        pseudo[:3, 3] = pseudo[3, :3] = arrays.first_moment[row]
        pseudo[3, 3] = arrays.mass[row]
        expected = pin.inertias[other].matrix()[np.ix_(linear_first, linear_first)]
        actual = spatial_inertia(pseudo)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=MERGING * abs(expected).max())
        placement = pin.jointPlacements[other]
        np.testing.assert_allclose(arrays.rotation[row], placement.rotation, atol=MERGING)
        np.testing.assert_allclose(arrays.translation[row], placement.translation, atol=MERGING)
        v = pin.joints[other].idx_v
        # Zero means that a limit was not filled in; Pinocchio keeps it.
        for ours, theirs in (
            (model.effort_limit[row], pin.effortLimit[v]),
            (model.velocity_limit[row], pin.velocityLimit[v]),
        ):
            assert ours == (theirs if theirs > 0.0 else math.inf)
        if pin.joints[other].nq == 1:
            assert model.lower_limit[row] == pin.lowerPositionLimit[pin.joints[other].idx_q]
            assert model.upper_limit[row] == pin.upperPositionLimit[pin.joints[other].idx_q]
    for name in model.link_names:
        frame = pin.frames[pin.getFrameId(name, link_frame)]
        expected_row = -1
        if frame.parentJoint > 0:
            expected_row = int(np.flatnonzero(twin.rows == pin.joints[frame.parentJoint].idx_v)[0])
        if expected_row < 6 and model.floating_base:
            expected_row = 5
        assert model.link_body[name] == expected_row
        np.testing.assert_allclose(
            model.link_placement[name], frame.placement.homogeneous, atol=MERGING
        )


@pytest.mark.parametrize("name", ROBOTS)
def test_merges_as_pinocchio(name: str) -> None:
    locked = LOCKED.get(name, {})
    model = Model.from_urdf(urdf_path(name), locked=locked)
    assert_same_bodies(model, PinocchioTwin(urdf_path(name), model.joint_names, locked=locked))


@pytest.mark.parametrize("seed", range(6))
def test_merges_random_trees_with_locked_joints(seed: int) -> None:
    text = random_tree_urdf(seed, 10, continuous=0.2, fixed=0.5)
    rng = np.random.default_rng(seed)
    names = rng.choice([f"joint{i}" for i in range(10)], size=4, replace=False)
    locked = {str(name): float(rng.uniform(-2, 2)) for name in names}
    for choice in ({}, locked):
        model = Model.from_urdf(text, locked=choice)
        assert not set(choice) & set(model.joint_names)
        assert_same_bodies(model, PinocchioTwin(text, model.joint_names, locked=choice))


def test_payload_is_one_more_fixed_link() -> None:
    text = random_tree_urdf(3, 5)
    inertia = [[0.05, 0.001, 0.0], [0.001, 0.04, 0.002], [0.0, 0.002, 0.03]]
    base = Model.from_urdf(text)
    model = base.with_payload("link4", 1.5, [0.1, -0.2, 0.3], inertia)
    extra = (
        '<link name="load"><inertial><origin xyz="0.1 -0.2 0.3"/><mass value="1.5"/>'
        '<inertia ixx="0.05" ixy="0.001" ixz="0" iyy="0.04" iyz="0.002" izz="0.03"/>'
        '</inertial></link><joint name="grip" type="fixed"><parent link="link4"/>'
        '<child link="load"/></joint></robot>'
    )
    twin = PinocchioTwin(text.replace("</robot>", extra), model.joint_names)
    assert_same_bodies(model, twin)
    assert model.mass == pytest.approx(base.mass + 1.5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link": "lod"}, ("no link 'lod'", "link4")),
        ({"link": "link0"}, ("'link0' is fixed to the world",)),
        ({"mass": -1.0}, ("mass is -1.0",)),
        ({"mass": math.nan}, ("mass is nan",)),
        ({"com": [0, 0]}, ("com has shape (2,)", "(3,)")),
        ({"inertia": np.diag([0.1, 0.1, 0.5])}, ("triangle inequality", "0.1 0.1 0.5")),
        ({"inertia": [[1, 1, 0], [0, 1, 0], [0, 0, 1]]}, ("not symmetric",)),
    ],
)
def test_payload_refused(change: dict[str, Any], words: tuple[str, ...]) -> None:
    good = {"link": "link4", "mass": 1.0, "com": [0, 0, 0], "inertia": np.eye(3)}
    with pytest.raises(InputError) as caught:
        Model.from_urdf(random_tree_urdf(3, 5)).with_payload(**{**good, **change})
    assert_names(caught.value, words)


def test_order_types_limits_and_summary(tmp_path: Path) -> None:
    text = robot(
        link("base"),
        *(link(name) for name in "abcd"),
        joint("z", "base", "a", "continuous", more=""),
        joint("y", "base", "b", "prismatic", axis='<axis xyz="0 2 0"/>'),
        joint("x", "a", "c", axis=""),
        joint("w", "c", "d", "fixed", more=""),
    )
    model = Model.from_urdf(text)
    assert model.joint_names == ("z", "x", "y")  # depth first, in the order of the joints
    assert model.joint_links == ("a", "c", "b")
    assert model.arrays.parent.tolist() == [-1, 0, -1]
    assert model.arrays.joint_type.tolist() == [REVOLUTE, REVOLUTE, PRISMATIC]
    np.testing.assert_array_equal(model.arrays.axis, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    assert model.lower_limit.tolist() == [-math.inf, -1, -1]
    assert model.effort_limit.tolist() == [math.inf, 40, 40]
    assert model.link_body == {"base": -1, "a": 0, "b": 2, "c": 1, "d": 1}
    assert repr(model) == "<Model 'arm': 3 joints (z, x, y), nv = 3, moving mass 8 kg>"
    assert all(part.flags.c_contiguous and part.flags.writeable for part in model.arrays)
    with pytest.raises(ValueError, match="read-only"):
        model.effort_limit[0] = 0.0
    with pytest.raises(InputError, match="no joint 'v'; joints are z, x, y"):
        model.joint_index("v")

    path = tmp_path / "arm.urdf"
    path.write_text(text, encoding="utf-8")
    for source in (path, str(path), f"\ufeff\n {text}"):
        assert repr(Model.from_urdf(source)) == repr(model)


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
@pytest.mark.parametrize(
    "limit",
    [
        '<limit lower="-1" upper="1"/>',
        '<limit lower="-1" upper="1" velocity="0" effort="0.0"/>',
        '<limit lower="-1" upper="1" velocity="0"/>',
        '<limit lower="-1" upper="1" effort="0"/>',
    ],
)
def test_a_limit_of_zero_or_without_value_was_not_filled_in(kind: str, limit: str) -> None:
    model = Model.from_urdf(elbow(more=limit, kind=kind))
    row = model.joint_index("elbow")
    assert model.velocity_limit[row] == math.inf
    assert model.effort_limit[row] == math.inf


def test_file_in_its_declared_encoding(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    text = arm().replace('"1.0"?', '"1.0" encoding="iso-8859-1"?').replace("shoulder", "épaule")
    path.write_bytes(text.encode("latin-1"))
    assert Model.from_urdf(path).joint_names == Model.from_urdf(text).joint_names
    assert "épaule" in Model.from_urdf(path).joint_names
