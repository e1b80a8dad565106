"""Estimates of the adaptive law: saved, loaded, and refused if they do not fit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from adaptive_law import FRICTION, SEVERAL, arm7, learned, random_state

from rbd_control.control import (
    AdaptiveSlotineLiController,
    ControllerParameters,
    Estimates,
    PassivityController,
)
from rbd_control.control.controller_parameters import AdaptationParameters
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, ModelWarning
from rbd_control.simulation import arm7_urdf


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    law, state = learned(), random_state(7, 99)
    law.estimates.save(tmp_path / "estimates.yaml")
    tau = law.torque(*state)
    law.reset()
    assert law.learned_energy == 0.0
    assert abs(law.torque(*state) - tau).max() > 1e-2
    law.set_estimates(Estimates.load(tmp_path / "estimates.yaml"))
    # Through mass, centre and inertia and back; torques are up to 1e2 N·m.
    assert np.allclose(law.torque(*state), tau, rtol=0.0, atol=1e-9)


def test_what_was_learned_in_a_moment_is_taken_back() -> None:
    """A push of 20 ms is 2 % of the average over a second; a law that goes on keeps both."""
    law, before = learned(), learned()
    rest = law.estimates
    law.set_estimates(rest)
    assert not law.forget_recent()
    assert law.payload == pytest.approx(before.payload)
    for seed in range(20):
        law.torque(*random_state(7, 100 + seed), dt=1e-3)
    pushed = law.payload
    assert abs(pushed - before.payload) > 0.01
    follower = AdaptiveSlotineLiController(arm7(), FRICTION, SEVERAL)
    follower.continue_from(law)
    assert follower.payload == pytest.approx(pushed)
    for each in (law, follower):
        average = each.averaged_estimates
        assert each.forget_recent()
        assert each.estimates.to_dict() == average.to_dict()
        assert abs(each.payload - before.payload) < 0.05 * abs(pushed - before.payload)
        assert not each.forget_recent()


def test_a_controller_keeps_estimates_for_another_model_object_of_the_same_arm() -> None:
    """A node makes a new model of a loaded arm for every change of a parameter."""
    parameters = ControllerParameters(adaptive=True)
    loaded = [arm7().with_payload("tool", 1.0, np.zeros(3), 0.01 * np.eye(3)) for _ in range(2)]
    controller = PassivityController(loaded[0], parameters)
    learner = AdaptiveSlotineLiController(
        loaded[0].with_payload("tool", 0.5, np.zeros(3), 0.01 * np.eye(3)), parameters, parameters
    )
    controller.law.set_estimates(learner.estimates)
    for model, payload in ((loaded[1], 0.5), (arm7(), 0.0)):
        controller.set_parameters(replace(parameters, stop_time=0.2), model)
        adaptive = controller.law.adaptive
        assert adaptive is not None
        assert adaptive.payload == pytest.approx(payload, abs=1e-9)
        assert bool(controller.law.discarded) == (not payload)
    assert controller.law.discarded == "the model of the arm has changed"
    controller.law.set_estimates(learner.estimates)
    controller.set_parameters(replace(parameters, largest_payload_mass=0.1))
    assert "exceeds largest_payload_mass" in controller.law.discarded


def test_estimates_of_a_file_come_back_when_learning_is_switched_on_again() -> None:
    """What was learned beyond them is discarded, which is said."""
    parameters = ControllerParameters(adaptive=True)
    model = arm7()
    learner = AdaptiveSlotineLiController(
        model.with_payload("tool", 0.5, np.zeros(3), 0.01 * np.eye(3)), parameters, parameters
    )
    controller = PassivityController(model, parameters)
    controller.law.set_estimates(learner.estimates)
    controller.set_parameters(replace(parameters, adaptive=False))
    assert controller.law.discarded == "adaptive is false now"
    controller.set_parameters(replace(parameters, adaptive=False, stop_time=0.2))
    assert not controller.law.discarded
    controller.set_parameters(parameters)
    adaptive = controller.law.adaptive
    assert adaptive is not None
    assert adaptive.payload == pytest.approx(0.5, abs=1e-9)


def test_estimates_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    law = learned()
    good, tau = law.estimates.to_dict(), law.torque(*random_state(7))
    links, joints = good["links"], good["joints"]
    tool, joint = links["tool"], joints["joint_2"]
    wrong = [
        (None, "the file is None; it must hold links, joints"),
        ({}, "the file has no 'links'; it holds nothing"),
        ({"links": links}, "has no 'joints'; it holds links"),
        (
            {"links": {"tool": tool}, "joints": joints},
            "for links tool, but the law adapts links tool, link_4",
        ),
        (
            {"links": links, "joints": {"joint_1": joints["joint_1"]}},
            "joints joint_1, but the law adapts joints joint_1, joint_2",
        ),
        ({"links": {**links, "tool": 3.0}, "joints": joints}, "tool is 3.0; it must hold mass"),
    ]
    for change, message in (
        ({"mass": -1.0}, "tool cannot have mass -1"),
        ({"mass": 1e4}, "largest_payload_mass"),
        ({"com": [0.0]}, r"com of tool has shape \(1,\)"),
        ({"inertia": "round"}, "inertia of tool is 'round'"),
    ):
        wrong.append(({"links": {**links, "tool": {**tool, **change}}, "joints": joints}, message))
    negative = {**joints, "joint_2": {**joint, "coulomb": -1.0}}
    wrong.append(({"links": links, "joints": negative}, "coulomb friction of joint_2 is -1"))
    for values, message in wrong:
        with pytest.raises(InputError, match=message):
            law.set_estimates(Estimates.from_dict(values))
    (tmp_path / "no.yaml").write_text("a: [", encoding="utf-8")
    for name in ("no.yaml", "none.yaml"):
        with pytest.raises(InputError, match=f"cannot read estimates from .*{name}"):
            Estimates.load(tmp_path / name)
    assert np.array_equal(law.torque(*random_state(7)), tau)


def test_an_inertia_that_no_body_can_have_does_not_stop_the_law() -> None:
    """The law could not be made, or refused the estimates that it had written itself."""
    text = re.sub(
        r'(<link name="link_7">.*?<inertia )[^/]*/>',
        r'\1ixx="1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>',
        arm7_urdf(),
        flags=re.DOTALL,
    )
    with pytest.warns(ModelWarning, match="triangle inequality"):
        model = Model.from_urdf(text)
    law = AdaptiveSlotineLiController(model, ControllerParameters(), AdaptationParameters())
    law.set_estimates(law.estimates)
    zero = np.zeros(7)
    assert np.isfinite(law.torque(zero, zero, zero, zero, zero, 0.001)).all()
