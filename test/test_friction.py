"""Friction that a controller adds to its torque must not decrease with speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.control import ControllerParameters
from rbd_control.control.adaptive import AdaptiveSlotineLiController
from rbd_control.control.controller_parameters import AdaptationParameters
from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.robot.friction import (
    MODELS,
    CoulombViscousFriction,
    Friction,
    FrictionParameters,
)
from rbd_control.simulation import arm7_urdf

SPEEDS = np.linspace(-3.0, 3.0, 2001)[:, None]
POSITIVE = st.floats(0.0, 50.0)
ANY = st.floats(-50.0, 50.0)


@given(
    st.sampled_from(sorted(MODELS)),
    st.tuples(POSITIVE, POSITIVE, ANY, st.floats(1e-3, 1.0)),
    st.tuples(POSITIVE, POSITIVE, ANY),
)
@settings(max_examples=60, deadline=None)
def test_the_monotone_part_never_decreases_with_speed(
    model: str, step: tuple[float, ...], other: tuple[float, ...]
) -> None:
    values: dict[str, Any] = {
        "friction_coulomb": (step[0],),
        "friction_viscous": (step[1],),
        "friction_stribeck": (step[2],),
        "friction_velocity_scale": (step[3],),
        "friction_f1": (other[0],),
        "friction_f2": (other[1],),
        "friction_f3": (other[2],),
    }
    friction = FrictionParameters(friction_model=model, **values).friction(1).monotone()
    torque = friction.torque(SPEEDS)[:, 0]
    assert np.diff(torque).min() >= -1e-12 * max(np.abs(torque).max(), 1.0)


@pytest.mark.parametrize("name", ["friction_f1", "friction_f2"])
def test_a_sigmoid_that_decreases_with_speed_is_refused(name: str) -> None:
    """Of two negative values the positive ones are the same model."""
    with pytest.raises(ParameterError, match=name):
        FrictionParameters(friction_model="sigmoid", **{name: (-1.0,)})


@dataclass(frozen=True, eq=False)
class _Half(CoulombViscousFriction):
    """Its coefficients do not mean what those of its base class mean."""

    def coefficients(self, n: int) -> np.ndarray:
        return super().coefficients(n) * np.array([[0.5], [0.5], [0.5], [1.0], [1.0], [1.0]])


@dataclass(frozen=True)
class _Parameters(ControllerParameters):
    def friction(self, n: int) -> Friction:
        return _Half(np.full(n, 2.0), np.full(n, 1.0), np.zeros(n), np.full(n, 0.01))


def test_the_adaptive_law_adds_the_torque_of_a_derived_model() -> None:
    model, still = Model.from_urdf(arm7_urdf()), np.zeros(7)
    v_r = np.linspace(0.1, 0.7, 7)

    def torque(parameters: ControllerParameters) -> np.ndarray:
        law = AdaptiveSlotineLiController(model, parameters, AdaptationParameters())
        return law.torque(still, still, still, v_r, still)

    added = torque(_Parameters()) - torque(ControllerParameters())
    assert added == pytest.approx(_Parameters().friction(7).torque(v_r))
