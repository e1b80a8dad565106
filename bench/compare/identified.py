"""Effect of the arm file, which ``rbd-control calibrate`` writes, on controller and detector.

A specimen has other masses and friction than its description. It moves without contact under
Slotine-Li control with the model of the description, and ``calibrate`` identifies the arm from
these motions. Then the same law with the same gains follows another motion twice: with the model of
the description, and with the model of the arm file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.compare.laws import FRICTION_SCALE, REFERENCE, SLOTINE_LI, Law, fixed, gains
from bench.compare.loop import MASS_ERROR, Loop, rms
from bench.compare.study import SETTLING, motion, reference
from bench.contacts.arms import Arm, arm
from bench.contacts.motion import Reference
from bench.contacts.plant import PERIOD, Plant
from rbd_control.cli.arm_file import arm_file
from rbd_control.control import ControllerParameters
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import RecordedMotion, calibrate
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters

LEARNED, TRIED = (0, 1), 2
"""Numbers of the calibration motions and of the test motion; added to 10 times the specimen."""


@dataclass(frozen=True)
class Identified:
    """Results of one specimen, first with its description, then with its arm file."""

    arm: str
    specimen: int
    error: tuple[float, float]
    """RMS tracking errors of the controller [rad]."""
    residual: tuple[float, float]
    """RMS residuals of the detector without contact, over all joints [N·m]."""


class Recorder:
    """Wraps a control law; records measured states and the torques that the motors produce.

    Args:
        law: the law.
        limit: effort limits, to which recorded torques are clipped, (nv,) [N·m].
    """

    def __init__(self, law: Law, limit: np.ndarray) -> None:
        self._law, self._limit = law, limit
        self._rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def __call__(
        self, q: np.ndarray, v: np.ndarray, q_d: np.ndarray, v_d: np.ndarray, a_d: np.ndarray
    ) -> np.ndarray:
        """Return the torque of the law, (nv,) [N·m], and record the sample."""
        tau = self._law(q, v, q_d, v_d, a_d)
        self._rows.append((q, v.copy(), np.clip(tau, -self._limit, self._limit)))
        return tau

    def motion(self, name: str) -> RecordedMotion:
        """Return the recorded motion without the first second, in which the arm settles.

        The torque that the law returns for a sample acts after that sample. The effort of a joint
        state is the torque that acted before it.
        """
        q, v, tau = (np.array(column, dtype=np.float64) for column in zip(*self._rows, strict=True))
        rows = slice(round(SETTLING / PERIOD), None)
        before = np.concatenate([tau[:1], tau[:-1]])
        return RecordedMotion(
            name, PERIOD * np.arange(len(q))[rows], q[rows], v[rows], before[rows]
        )


def identified(name: str, specimen: int, seconds: float) -> Identified:
    """Calibrate one specimen on two motions; follow a third motion with and without the result.

    Args:
        name: name of the arm.
        specimen: number of the specimen, the seed of its properties.
        seconds: length of each motion [s].
    """
    of = arm(name)
    plant = Plant(of, specimen, MASS_ERROR)
    paths = [motion(of, 10 * specimen + k) for k in (*LEARNED, TRIED)]
    wanted = [reference(path, 0.0, seconds) for path in paths]
    plain = _without_friction(gains(of, wanted[0]))
    recorded = [_record(plant, of, of.model, plain, one, specimen)[1] for one in wanted[:-1]]
    with TemporaryDirectory() as folder:
        robot, detector, friction = _arm_file(of, recorded, Path(folder))
    told = replace(plain, **{key: getattr(friction, key) for key in _FRICTION})
    errors, residuals = [], []
    for model, law, settings in (
        (of.model, plain, _undisturbed(detector)),
        (robot.model, told, detector),
    ):
        error, moved = _record(plant, of, model, law, wanted[-1], specimen)
        errors.append(error)
        block = ContactDetector(model, settings).update_block(moved.t, moved.q, moved.v, moved.tau)
        residuals.append(rms(block.residual[round(SETTLING / PERIOD) :]))
    return Identified(name, specimen, (errors[0], errors[1]), (residuals[0], residuals[1]))


def _record(
    plant: Plant,
    of: Arm,
    model: Model,
    parameters: ControllerParameters,
    wanted: Reference,
    seed: int,
) -> tuple[float, RecordedMotion]:
    """Follow a motion; return the RMS tracking error [rad] and the measured motion."""
    law = fixed(SLOTINE_LI, REFERENCE, of, parameters, model)
    recorder = Recorder(law, of.model.effort_limit)
    errors = Loop(plant, recorder, wanted, seed).run(wanted)
    return rms(errors[round(SETTLING / PERIOD) :]), recorder.motion(of.name)


def _arm_file(
    of: Arm, recorded: list[RecordedMotion], folder: Path
) -> tuple[Robot, DetectorParameters, ControllerParameters]:
    """Calibrate, write the arm file, and load it like the nodes."""
    (folder / "arm.urdf").write_text(of.urdf, encoding="utf-8")
    plain = Robot.load(folder / "arm.urdf")
    calibration = calibrate(recorded, plain.model)
    file = folder / "arm.yaml"
    text = arm_file(calibration, [Path(part.name) for part in recorded], plain, {})
    file.write_text(text, encoding="utf-8")
    detector = law_parameters(DetectorParameters, read_parameter_file(file, "contact_detector"))
    controller = law_parameters(
        ControllerParameters, read_parameter_file(file, "passivity_controller")
    )
    return Robot.load(file), detector, controller


_FRICTION = (
    "friction_model",
    "friction_coulomb",
    "friction_viscous",
    "friction_offset",
    "friction_velocity_scale",
)


def _without_friction(parameters: ControllerParameters) -> ControllerParameters:
    return replace(parameters, friction_model="none", friction_velocity_scale=(FRICTION_SCALE,))


def _undisturbed(parameters: DetectorParameters) -> DetectorParameters:
    """Return the parameters of the detector without the identified parameters of the arm."""
    return replace(parameters, friction_model="none", effort_gain=RobotParameters().effort_gain)
