"""Estimates of the adaptive law: saved, loaded, and refused if they do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from adaptive_law import FRICTION, learned, random_state

from rbd_control.control import Estimates, SlotineLiController
from rbd_control.errors import InputError


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    law, state = learned(), random_state(7, 99)
    law.estimates.save(tmp_path / "estimates.yaml")
    tau = law.torque(*state)
    model_tau = SlotineLiController(law.model, replace(FRICTION, friction_model="none"))
    law.reset()
    assert law.learned_energy == 0.0
    assert abs(law.torque(*state) - tau).max() > 1e-2
    law.set_estimates(Estimates.load(tmp_path / "estimates.yaml"))
    # Through mass, centre and inertia and back; torques are up to 1e2 N·m.
    assert np.allclose(law.torque(*state), tau, rtol=0.0, atol=1e-9)
    assert law.friction is not None
    q, _, q_d, v_d, _ = state
    friction = law.friction.torque(v_d - 20.0 * (q - q_d))
    assert np.allclose(model_tau.torque(*state) + friction, tau, rtol=0.0, atol=1e-9)


def test_estimates_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    law = learned()
    good, tau = law.estimates.to_dict(), law.torque(*random_state(7))
    links, joints = good["links"], good["joints"]
    tool, joint = links["tool"], joints["joint_2"]
    wrong = [
        (None, "the file is None; it must hold links, joints"),
        ({}, "the file has no 'links'; it holds nothing"),
        ({"links": links}, "has no 'joints'; it holds links"),
        ({"links": {"tool": tool}, "joints": joints}, "links tool but adapted are tool, link_4"),
        ({"links": links, "joints": {}}, "joints none but adapted are joint_1"),
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
