"""Simulated motions of the shipped arm, for tests of calibration and of the check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rbd_control.control import ControllerParameters, SlotineLiController
from rbd_control.dynamics import Model
from rbd_control.identification import RecordedMotion
from rbd_control.joint_states import JointBlock
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording
from rbd_control.simulation import SimulatedArm, SimulationParameters

COULOMB = (0.6, 0.7, 0.5, 0.6, 0.4, 0.3, 0.2)
VISCOUS = (1.0, 0.8, 0.9, 1.1, 0.5, 0.4, 0.3)
RATE = 250.0
PERIOD = np.array([4.6, 3.8, 5.3, 3.3, 2.9, 2.6, 2.3])

Act = Callable[[SimulatedArm, float], None]

DAMPING = (5.4, 5.4, 3.3, 3.3, 1.8, 1.05, 0.25)
"""Constant damping of the controller of the motion [N·m·s/rad]."""


def lively_motion(
    model: Model,
    seconds: float,
    *,
    name: str = "free",
    seed: int = 0,
    act: Act | None = None,
    **sensors: Any,
) -> RecordedMotion:
    """Return a lively motion of the shipped arm, its model 1 % wrong in every mass.

    Args:
        model: the arm.
        seconds: length of the motion [s].
        name: name of the motion.
        seed: of the errors and the phases.
        act: called before each step with the arm and the time [s], to push it.
        **sensors: parameters of the simulated arm's sensors that differ.
    """
    parameters = SimulationParameters(
        coulomb=COULOMB,
        viscous=VISCOUS,
        rate=RATE,
        mass_error=0.01,
        effort_noise=0.02,
        seed=seed,
        initial_position=(0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0),
        **sensors,
    )
    arm = SimulatedArm(model, parameters)
    # Own gains, so that the motion does not depend on the gains that follow from an arm.
    gains = ControllerParameters(damping_rate=40.0, bandwidth=(20.0,), damping=DAMPING)
    law = SlotineLiController(model, gains)
    rest = arm.q.copy()
    rows = []
    w = 2.0 * np.pi / PERIOD
    for k in range(int(seconds * RATE)):
        t = k / RATE
        fade = min(t, 1.0)
        q_d = rest + 0.4 * fade * np.sin(w * t + seed)
        v_d = 0.4 * fade * w * np.cos(w * t + seed)
        a_d = -0.4 * fade * w**2 * np.sin(w * t + seed)
        sample = arm.reading()
        assert sample is not None, "no sample is lost"
        assert sample.v is not None
        if k and sample.tau is not None:
            rows.append((sample.stamp, sample.q, sample.v, sample.tau))
        if act is not None:
            act(arm, t)
        arm.step(law.torque(sample.q, sample.v, q_d, v_d, a_d))
    return RecordedMotion(name, *(np.array(column) for column in zip(*rows, strict=True)))


def recording(motion: RecordedMotion, names: tuple[str, ...]) -> Recording:
    """Return a recording of a motion, stamps from 1000 s on."""
    stamp = 1000.0 + motion.t
    block = JointBlock(stamp, stamp, names, motion.q, motion.v, motion.tau)
    parts = [[Part(np.zeros(stamp.size, int), block)]]
    return Recording(
        Path("made"), "/joint_states", names, stamp.size, None, lambda size: iter(parts)
    )
