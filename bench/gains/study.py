"""Identified drive gains of simulated arms in comparison with the true gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.gains.arm import JOINTS, Array, Specimen, urdf
from rbd_control.identification import (
    DriveGain,
    DriveGainError,
    GainEvidence,
    KnownPayload,
    RecordedMotion,
)
from rbd_control.identification.drive_gains import USABLE_ERROR, drive_gains

MASS = 4.0
"""Mass of the payload [kg]."""
OFF_AXIS, ON_AXIS = (0.06, 0.03, 0.08), (0.0, 0.0, 0.1)
"""Centre of mass of the payload beside and on the axis of the last joint [m]."""
GAP = 0.1
"""Longest gap within a stretch of motion [s]."""
CASES = ("free motion", "payload", "payload, centre told", "payload on the last axis")


@dataclass(frozen=True, eq=False)
class Result:
    """Identified gains of one specimen."""

    gains: tuple[DriveGain, ...]
    true: Array
    """True gains, (nv,) [N·m/A]."""
    message: str = ""
    """Text of the error that rejected gains; empty if all were accepted."""

    @property
    def accepted(self) -> Array:
        """Whether each gain is accepted, (nv,) bool: its standard error is small enough."""
        return np.array([one.is_accepted(USABLE_ERROR) for one in self.gains])

    @property
    def claimed(self) -> Array:
        """Estimated relative standard errors of the gains, (nv,)."""
        return np.array([one.relative_error for one in self.gains])

    @property
    def relative_error(self) -> Array:
        """True relative errors of the gains, (nv,), signed."""
        return np.array([one.gain for one in self.gains]) / self.true - 1.0

    @property
    def in_standard_errors(self) -> Array:
        """True errors of the gains in units of their standard errors, (nv,), signed."""
        off = [one.gain - true for one, true in zip(self.gains, self.true, strict=True)]
        return np.array(off) / [one.standard_error for one in self.gains]


def identified(
    specimen: Specimen, motions: Sequence[RecordedMotion], evidence: GainEvidence | None = None
) -> Result:
    """Identify the gains of a specimen, and return them also if some are rejected.

    Args:
        specimen: the arm, whose description the identification uses.
        motions: motions without contact and without payload.
        evidence: further data, such as motions with a known payload.
    """
    try:
        gains, _ = drive_gains(motions, specimen.description, GAP, evidence or GainEvidence())
    except DriveGainError as error:
        return Result(error.gains, specimen.gains, error.message)
    return Result(gains, specimen.gains)


def carried(
    specimen: Specimen, centre: tuple[float, float, float], seed: int, *, told: bool = False
) -> GainEvidence:
    """Return a motion with a payload of known mass as data for the identification.

    Args:
        specimen: the arm.
        centre: centre of mass of the payload in the frame of the last link [m].
        seed: seed of the motion.
        told: whether the identification knows the centre of mass as well.
    """
    motion = specimen.loaded(MASS, centre).recorded(500 + seed)
    return GainEvidence((KnownPayload([motion], MASS, centre=centre if told else None),))


def study(seed: int) -> list[Result]:
    """Return the results of one random specimen, one for each of :data:`CASES`."""
    specimen = Specimen.drawn(seed)
    motions = [specimen.recorded(seed)]
    evidence = (
        None,
        carried(specimen, OFF_AXIS, seed),
        carried(specimen, OFF_AXIS, seed, told=True),
        carried(specimen, ON_AXIS, seed, told=True),
    )
    return [identified(specimen, motions, one) for one in evidence]


def record(folder: Path, seed: int) -> None:
    """Write the URDF and two recordings of one specimen to a folder.

    The files are ``ur10e.urdf``, ``free.csv`` and, with a payload of 4 kg beside the last axis,
    ``load.csv``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    specimen = Specimen.drawn(seed)
    (folder / "ur10e.urdf").write_text(urdf(), encoding="utf-8")
    write(folder / "free.csv", specimen.recorded(seed))
    write(folder / "load.csv", specimen.loaded(MASS, OFF_AXIS).recorded(500 + seed))


def write(path: Path, motion: RecordedMotion) -> None:
    """Write a motion as a CSV recording that ``rbd-control`` reads."""
    kinds = ("position", "velocity", "effort")
    header = ",".join(["time", *(f"{kind}/{joint}" for kind in kinds for joint in JOINTS)])
    table = np.column_stack([motion.t, motion.q, motion.v, motion.tau])
    np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.9g")
