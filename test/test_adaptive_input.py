"""Parameters and arguments of the adaptive law: the effect of each, and invalid values."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from adaptive_law import FRICTION, PARAMETERS, arm7, learned, random_state

from rbd_control.control import (
    AdaptationParameters,
    AdaptiveSlotineLiController,
    ControllerParameters,
)
from rbd_control.dynamics import Model
from rbd_control.dynamics.inertia import violation
from rbd_control.errors import InputError, ParameterError
from rbd_control.simulation import arm7_urdf

OTHER = {
    "adapted_links": ("link_3",),
    "learning_rate": 1e-3,  # a larger one reaches the limit of one period in this fast motion
    "largest_payload_mass": 1.0,
    "largest_payload_reach": 0.1,
}


@pytest.mark.parametrize("name", [item.name for item in fields(AdaptationParameters)])
def test_every_parameter_counts(name: str) -> None:
    model, state = arm7(), random_state(7)

    def second_torque(adaptation: AdaptationParameters) -> np.ndarray:
        law = AdaptiveSlotineLiController(model, FRICTION, adaptation)
        law.torque(*state, dt=1e-3)
        return law.torque(*state)

    before = AdaptationParameters()
    difference = second_torque(replace(before, **{name: OTHER[name]})) - second_torque(before)
    assert abs(difference).max() > 1e-6


def test_bad_input_is_refused_and_teaches_nothing() -> None:
    law, state = learned(), random_state(7)
    tau = law.torque(*state)
    for i, (name, x) in enumerate(zip(("q", "v", "q_d", "v_d", "a_d"), state, strict=True)):
        for bad in (np.nan, np.inf):
            with pytest.raises(InputError, match=f"^{name} is"):
                law.torque(*state[:i], np.full(7, bad), *state[i + 1 :], dt=1e-3)
        with pytest.raises(InputError, match=rf"{name} has shape \(6,\); it must be \(7,\)"):
            law.torque(*state[:i], x[:6], *state[i + 1 :], dt=1e-3)
    with pytest.raises(InputError, match="(?s)torque at q = .* is not finite"):
        law.torque(state[0], np.full(7, 1e307), *state[2:], dt=1e-3)
    for dt in (-1e-3, np.nan, np.inf):
        with pytest.raises(InputError, match="dt is"):
            law.torque(*state, dt=dt)
    assert np.array_equal(law.torque(*state), tau)


@pytest.mark.parametrize(
    ("adaptation", "parameters", "message"),
    [
        ({"adapted_links": ("hand",)}, PARAMETERS, "no link 'hand'; links are"),
        ({"adapted_links": ("link_0",)}, PARAMETERS, "link 'link_0' is fixed to the world"),
        ({"adapted_links": ("link_7", "tool")}, PARAMETERS, "'link_7' is fixed to another"),
        ({}, replace(PARAMETERS, damping=(1.0, 2.0)), "has 2 values but the model has 7"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    adaptation: dict[str, Any], parameters: ControllerParameters, message: str
) -> None:
    with pytest.raises((InputError, ParameterError), match=message):
        AdaptiveSlotineLiController(arm7(), parameters, AdaptationParameters(**adaptation))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("adapt_friction", "always learns friction"),
        ("friction_learning_rate", "learning_rate applies"),
        ("adaptation_dead_zone", "nothing at rest"),
    ],
)
def test_the_error_for_a_removed_parameter_names_the_reason(name: str, why: str) -> None:
    with pytest.raises(ParameterError, match=f"no parameter .*{name}.*{why}"):
        ControllerParameters.from_mapping({name: 1.0})


def test_a_floating_base_is_refused() -> None:
    model = Model.from_urdf(arm7_urdf(), floating_base=True)
    with pytest.raises(InputError, match="floating base"):
        AdaptiveSlotineLiController(model, PARAMETERS, AdaptationParameters())


def test_a_point_mass_as_last_link_can_be_adapted() -> None:
    """A point mass is on the border of physical bodies: its pseudo-inertia has no inverse."""
    model = arm7()
    arrays = model.arrays
    second = arrays.second_moment.copy()
    second[6] = np.outer(arrays.first_moment[6], arrays.first_moment[6]) / arrays.mass[6]
    point = replace(model, arrays=arrays._replace(second_moment=second))
    law = AdaptiveSlotineLiController(point, PARAMETERS, AdaptationParameters())
    for seed in range(20):
        law.torque(*random_state(7, seed), dt=1e-3)
    assert law.learning
    assert not violation(law.estimates.links[0].inertia, definite=False)
