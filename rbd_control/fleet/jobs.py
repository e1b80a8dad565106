"""Processing of one recording of a fleet, in any process, and the digest of what it depends on.

A job is a frozen object that can be pickled. It contains paths and arguments; the worker process
that runs it reads the recording, the robot description and the parameter file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rbd_control import __version__
from rbd_control.errors import ModelWarning, RbdControlError
from rbd_control.files.input_files import about, reason
from rbd_control.fleet.store import DONE, NO_VERDICT, Outcome
from rbd_control.identification import GainEvidence, KnownGain, calibrate
from rbd_control.identification.calibration import Calibration
from rbd_control.identification.drive_gains import USABLE_ERROR
from rbd_control.playback.configuration import (
    EffortOptions,
    arm_to_calibrate,
    configured_robot,
    described_arm,
    physical,
    starting_parameters,
)
from rbd_control.playback.measures import FACTORS
from rbd_control.playback.motions import free_motions, read_motions
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.truth import Label
from rbd_control.robot.inertial_corrections import CORRECTIONS
from rbd_control.robot.robot import description_text
from rbd_control.robot.shapes import mesh_addresses, mesh_files, surface_of_robot
from rbd_control.startup.warmup import steps

_PREPARED = ("joint states", "contact detector", "replay")
"""Steps of ``rbd-control warmup`` that load the compiled code of :func:`replay`."""


class Job(Protocol):
    """Interface of the work on one recording; a worker process calls its method :meth:`run`."""

    @property
    def recording(self) -> Path:
        """Absolute path of the recording."""

    def run(self) -> Outcome:
        """Process the recording and return its outcome.

        Raises:
            RbdControlError: when the recording or the files of its arm cannot be used.
        """


@dataclass(frozen=True)
class Source:
    """A recording, and the files and options that describe its arm.

    Attributes:
        recording: absolute path of the recording.
        urdf: path of the robot description, or of a parameter file that names it.
        config: parameter file of the detector; None for defaults. Only :class:`ReplayJob` reads it.
        topic: topic of the joint states.
        locked: names and positions of joints that do not move [rad or m].
        joints: names of the model's joints in the recording, in the model's order; None if they are
            matched by name.
        trusted: whether to use the declared effort kind (``effort_kind``) even if the efforts
            refute it.
    """

    recording: Path
    urdf: str
    config: Path | None = None
    topic: str = "/joint_states"
    locked: tuple[tuple[str, float], ...] = ()
    joints: tuple[str, ...] | None = None
    trusted: bool = False


@dataclass(frozen=True)
class _SourceJob:
    """Work on the recording of a :class:`Source`.

    Attributes:
        source: the recording and its arm.
    """

    source: Source

    @property
    def recording(self) -> Path:
        """Absolute path of the recording."""
        return self.source.recording

    def _read(self) -> Recording:
        return read_recording(self.source.recording, self.source.topic)


@dataclass(frozen=True)
class ReplayJob(_SourceJob):
    """Runs the contact detector over a recording, as ``rbd-control replay`` does.

    Attributes:
        labels: the true contacts, times from the first sample [s], empty for a recording without
            contact; None to use the true contacts in the recording, if it has any.
        curve: whether to score the thresholds multiplied by each of
            :data:`~rbd_control.playback.measures.FACTORS` as well.
    """

    labels: tuple[Label, ...] | None = None
    curve: bool = False

    def run(self) -> Outcome:
        """Return the outcome, whose ``result`` is what ``rbd-control replay --json`` writes.

        Its status is ``done``, or ``no verdict`` if no sample has a verdict.

        Raises:
            RbdControlError: when the recording or the files of its arm cannot be used.
        """
        source, recording = self.source, self._read()
        if recording.true_contacts and self.labels == ():
            text = "the true contacts in the recording do not count: it is declared free of contact"
            warnings.warn(text, ModelWarning, stacklevel=2)
        robot, parameters = configured_robot(
            source.urdf, source.config, dict(source.locked), [recording]
        )
        if source.trusted:
            parameters = replace(parameters, check_effort_kind=False)
        result = replay(
            recording,
            robot.model,
            parameters,
            surface=surface_of_robot(robot),
            joints=source.joints,
            labels=self.labels,
            factors=FACTORS if self.curve else (),
        )
        silent = ", ".join(f"{why} {time:.2f} s" for why, time in result.invalid.items())
        return Outcome(
            DONE if result.valid_fraction else NO_VERDICT,
            "" if result.valid_fraction else f"the detector has no verdict at any time ({silent})",
            start=_known(result.start),
            result=result.to_json(),
        )


@dataclass(frozen=True)
class CalibrateJob(_SourceJob):
    """Identifies friction and thresholds from one recording without contact.

    Attributes:
        false_alarms: acceptable rate of false alarms, over all joints [1/h].
        effort: options that override the effort that the arm file declares.
        observer: kind of observer, ``momentum`` or ``second_order``.
        gain: observer gain of all joints [1/s]; None if the calibration chooses one per joint.
        known_gains: names of joints with their known torque per unit of effort and its error.
        drive_gain_error: largest relative standard error of an accepted drive gain.
        mass_error: relative standard deviation of the masses of the URDF.
    """

    false_alarms: float = 1.0
    effort: EffortOptions = EffortOptions()
    observer: str = "second_order"
    gain: float | None = None
    known_gains: tuple[tuple[str, KnownGain], ...] = ()
    drive_gain_error: float = USABLE_ERROR
    mass_error: float = 0.05

    def run(self) -> Outcome:
        """Return the outcome, whose ``result`` is made by :func:`calibration_content`.

        Raises:
            RbdControlError: when the recording or the files of its arm cannot be used.
        """
        source, recording = self.source, self._read()
        robot = arm_to_calibrate(source.urdf, dict(source.locked), [recording], self.effort)
        model = robot.model
        found = read_motions(recording, model, source.joints, robot.parameters.velocity_filter)
        motions, _ = free_motions(recording, found)
        start = starting_parameters(
            robot,
            observer=self.observer,
            gain=self.gain,
            trusted=source.trusted,
        )
        with about(source.recording), physical(model):
            calibration = calibrate(
                motions,
                model,
                start,
                alone=robot.description,
                false_alarms_per_hour=self.false_alarms,
                keep_gain=self.gain is not None,
                evidence=GainEvidence(
                    known=dict(self.known_gains),
                    accepted_error=self.drive_gain_error,
                    mass_error=self.mass_error,
                ),
            )
        return Outcome(DONE, start=_known(found.start), result=calibration_content(calibration))


FRICTION = ("friction_coulomb", "friction_viscous", "friction_offset", "friction_stribeck")
"""Friction parameters of each joint that a calibration result contains."""

_PER_JOINT = (
    *FRICTION,
    *CORRECTIONS,
    "effort_gain",
    "observer_gain",
    "threshold_speed",
    "collision_threshold",
)


def calibration_content(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as plain values that ``json`` can write.

    The keys are ``duration`` [s], ``false_alarms_per_hour`` [1/h], ``effort_kind``, ``warnings``
    (list of texts), and ``joints``: for each joint by name its thresholds, friction, corrections,
    gains, and the residuals of
    :class:`~rbd_control.identification.calibration.JointCalibration` [N·m or N].
    """
    parameters, n = calibration.parameters, len(calibration.joints)
    columns = {name: parameters.for_joints(name, n) for name in _PER_JOINT}
    return {
        "duration": calibration.duration,
        "false_alarms_per_hour": calibration.false_alarms_per_hour,
        "effort_kind": parameters.effort_kind,
        "warnings": list(calibration.notes),
        "joints": {
            joint.joint: {
                "threshold": joint.threshold,
                **{name: float(values[i]) for name, values in columns.items()},
                "rms_before": joint.rms_before,
                "rms_after": joint.rms_after,
                "prediction_error": joint.prediction_error,
                "largest": joint.largest,
            }
            for i, joint in enumerate(calibration.joints)
        },
    }


def prepare() -> str:
    """Load the compiled code of ``replay`` into this process; return the package's version.

    Code that has not been compiled on this machine is compiled and stored.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, step in steps():
            if name in _PREPARED:
                step()
    return __version__


def worker_version() -> str:
    """Return the version of rbd_control in the process that runs this function."""
    return __version__


def run_job(job: Job) -> Outcome:
    """Run a job and return its outcome with the warnings for the user.

    An exception of the job becomes an outcome with the status ``bad`` and a reason.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ModelWarning)
        try:
            outcome = job.run()
        except RbdControlError as error:
            outcome = Outcome.bad(_said(error, job.recording))
        except MemoryError:
            outcome = Outcome.bad("takes more memory than there is")
        except Exception as error:
            outcome = Outcome.bad(
                f"internal error: {type(error).__name__} ({reason(error)}); run the command on "
                "this recording alone with --debug"
            )
    return replace(outcome, warnings=tuple(str(warning.message) for warning in caught))


def _said(error: RbdControlError, recording: Path) -> str:
    """Return the message of an error, and the file that it names unless that is the recording."""
    if not error.path or error.path == str(recording):
        return error.message
    inside = Path(error.path)
    where = inside.name if recording in inside.parents else error.path
    return f"{where}: {error.message}"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def job_keys(jobs: Iterable[ReplayJob | CalibrateJob]) -> list[str]:
    """Return for each job a SHA-256 digest, in hexadecimal, of what its result depends on.

    The digest changes with the version of the package, the arguments, the content of the robot
    description and of the parameter file, and with the size and the modification time of each file
    of the recording and of each mesh file of the collision geometry. It also changes when the
    package trimesh, which reads most mesh files, is installed.

    Raises:
        RbdControlError: naming the description or the parameter file, if it cannot be read.
    """
    digests: dict[tuple[str, Path | None], str] = {}
    keys = []
    for job in jobs:
        files = (job.source.urdf, job.source.config)
        if files not in digests:
            digests[files] = _arm_digest(*files)
        keys.append(_key(job, digests[files]))
    return keys


def _key(job: ReplayJob | CalibrateJob, arm: str) -> str:
    source = job.source
    content = {
        "version": __version__,
        "kind": type(job).__name__,
        "job": asdict(replace(job, source=replace(source, urdf="", config=None))),
        "arm": arm,
        "files": list(_files(source.recording)),
    }
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _arm_digest(urdf: str, config: Path | None) -> str:
    """Return a digest of a robot description, a parameter file, and the state of the mesh files."""
    arm, _, values = described_arm(urdf, config)
    text = description_text(arm)
    paths = map(mesh_files(arm).find, mesh_addresses(text))
    meshes = [(str(path), *_state(path)) for path in paths if path]
    reads_meshes = find_spec("trimesh") is not None
    parts = (text, repr(arm), repr(sorted(values.items())), repr(meshes), repr(reads_meshes))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _files(recording: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size [bytes] and modification time [ns] of each file of a recording."""
    files = sorted(recording.rglob("*")) if recording.is_dir() else [recording]
    for file in files:
        if state := _state(file):
            yield str(file.relative_to(recording)), *state


def _state(file: Path) -> tuple[int, int] | tuple[()]:
    """Return size [bytes] and modification time [ns] of a file; an empty tuple without access."""
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else str(value)
