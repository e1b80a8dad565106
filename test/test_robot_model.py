"""From parameters to the model: what the arm carries."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from rbd_control.cli.replay import configured
from rbd_control.dynamics import Model, gravity_torque, mass_matrix
from rbd_control.errors import InputError, ParameterError
from rbd_control.node_parameters import PayloadParameters
from rbd_control.robot.robot import with_payload
from rbd_control.simulation import arm7_urdf

MODEL = Model.from_urdf(arm7_urdf())
POSTURE = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
LOADED = PayloadParameters(
    payload_mass=1.5,
    payload_link="link_6",
    payload_com=(0.0, 0.02, 0.1),
    payload_inertia=(0.02, 0.03, 0.04, 0.001, 0.0, 0.0),
)


def test_the_payload_of_the_parameters_is_that_of_the_model() -> None:
    inertia = [[0.02, 0.001, 0.0], [0.001, 0.03, 0.0], [0.0, 0.0, 0.04]]
    expected = MODEL.with_payload("link_6", 1.5, (0.0, 0.02, 0.1), inertia)
    np.testing.assert_array_equal(
        mass_matrix(with_payload(MODEL, LOADED), POSTURE), mass_matrix(expected, POSTURE)
    )
    assert with_payload(MODEL, PayloadParameters()) is MODEL


@pytest.mark.parametrize("name", [item.name for item in fields(PayloadParameters)])
def test_each_parameter_counts(name: str) -> None:
    """All that are not the default for the one in question: another mass matrix."""
    without = replace(LOADED, **{name: getattr(PayloadParameters(), name)})
    before, after = (mass_matrix(with_payload(MODEL, p), POSTURE) for p in (LOADED, without))
    assert not np.allclose(before, after, rtol=0.0, atol=1e-6)


def test_a_payload_that_cannot_be() -> None:
    with pytest.raises(ParameterError, match="payload_com has 2 values"):
        PayloadParameters(payload_com=(0.0, 1.0))
    with pytest.raises(InputError, match="hand"):
        with_payload(MODEL, replace(LOADED, payload_link="hand"))


def test_replay_takes_the_payload_of_the_node(tmp_path: Path) -> None:
    file = tmp_path / "detector.yaml"
    file.write_text(
        "contact_detector:\n  ros__parameters:\n    payload_mass: 1.5\n", encoding="utf-8"
    )
    model, _ = configured("arm7", file, {})
    expected = MODEL.with_payload("link_7", 1.5, (0.0, 0.0, 0.0), np.zeros((3, 3)))
    np.testing.assert_array_equal(gravity_torque(model, POSTURE), gravity_torque(expected, POSTURE))
