"""Drive gains on the command line: arguments with prior knowledge, and the table of results.

The gain of a drive is the joint torque per unit of effort (motor current) [N·m or N per unit].
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from rbd_control.errors import InputError
from rbd_control.files.input_files import about
from rbd_control.identification import GainEvidence, KnownGain, KnownPayload, RecordedMotion
from rbd_control.identification.drive_gains import DriveGainError
from rbd_control.playback.configuration import EffortOptions
from rbd_control.reports.calibration_page import gain_table
from rbd_control.wording import quoted

_HELP = (
    "Remedies, by joint:\n"
    "- a motion in which gravity loads the joint more, far from the vertical, and a faster one for "
    "a joint with a vertical axis;\n"
    "- a recording with a known payload, --payload-recording RECORDING=MASS. It loads a joint if "
    "its weight has a lever about the joint's axis; the last joint only if its centre of mass lies "
    "off that axis; a vertical axis only while the joint accelerates. A heavier payload is better, "
    "its centre of mass (@X,Y,Z) helps, and several recordings are better than one;\n"
    "- the gain itself, --drive-gain JOINT=GAIN±ERROR: torque constant times gear ratio of the "
    "datasheet, or the ratio of torque and current that the vendor's controller reports."
)


def gain_evidence(
    arguments: argparse.Namespace, motions: Callable[[Path], Sequence[RecordedMotion]]
) -> GainEvidence:
    """Return the known payloads and drive gains that the arguments of ``calibrate`` state.

    Args:
        arguments: arguments of the command: ``--payload-recording``, ``--drive-gain``,
            ``--drive-gain-error`` and ``--mass-error`` (both in percent).
        motions: reads the motions of a recording; called once for each ``--payload-recording``.

    Raises:
        InputError: for an argument that cannot be parsed, and for a mass, gain or standard error
            outside its range.
        RecordingError: if ``motions`` raises it, because a recording cannot be used.
    """
    return GainEvidence(
        payloads=tuple(_payload(text, motions) for text in arguments.payload_recordings),
        known=dict(_known_gain(text) for text in arguments.known_gains),
        accepted_error=arguments.drive_gain_error / 100.0,
        mass_error=arguments.mass_error / 100.0,
    )


def effort_options(arguments: argparse.Namespace) -> EffortOptions:
    """Return the options of the command that override the effort declared in the arm file.

    They are ``--effort`` (the kind) and ``--effort-gain`` (torque per unit of effort).

    Raises:
        InputError: for ``--payload-recording`` or ``--drive-gain`` together with ``--effort-gain``,
            or with a kind of effort other than ``current``, because no gain is identified then.
    """
    return EffortOptions(
        kind=arguments.effort,
        gain=tuple(arguments.effort_gain) if arguments.effort_gain else None,
        has_evidence=bool(arguments.payload_recordings or arguments.known_gains),
    )


def payload_paths(arguments: argparse.Namespace) -> list[Path]:
    """Return the path of the recording in each ``--payload-recording RECORDING=MASS…``.

    Texts without a path are left out; :func:`gain_evidence` refuses them. Commands other than
    ``calibrate`` have none.
    """
    texts = getattr(arguments, "payload_recordings", ())
    paths = (text.rpartition("=")[0] for text in texts)
    return [Path(path) for path in paths if path]


def _payload(text: str, motions: Callable[[Path], Sequence[RecordedMotion]]) -> KnownPayload:
    """Return the payload and motions that ``RECORDING=MASS[±ERROR][@X,Y,Z]`` states [kg, m]."""
    path, _, load = text.rpartition("=")
    mass, at, centre = load.partition("@")
    numbers = _numbers(centre.split(",")) if at else []
    measured = _measured(mass)
    if not path or measured is None or numbers is None or len(numbers) not in (0, 3):
        raise InputError(
            f"--payload-recording is {quoted(text)}; give RECORDING=MASS, RECORDING=MASS±ERROR "
            f"[kg], or either with @X,Y,Z, the centre of mass [m]"
        )
    centre_of_mass = (numbers[0], numbers[1], numbers[2]) if numbers else None
    with about(path):
        return KnownPayload(motions(Path(path)), *measured, centre_of_mass)


def _known_gain(text: str) -> tuple[str, KnownGain]:
    """Return the joint and the gain that ``JOINT=GAIN[±ERROR]`` names."""
    joint, _, gain = text.rpartition("=")
    measured = _measured(gain)
    if not joint or measured is None:
        raise InputError(f"--drive-gain is {quoted(text)}; give JOINT=GAIN or JOINT=GAIN±ERROR")
    return joint, KnownGain(*measured)


def _measured(text: str) -> tuple[float, float] | None:
    """Return value and standard error (default 0) of ``VALUE[±ERROR]``; None if not numbers."""
    numbers = _numbers(re.split(r"±|\+-|\+/-", text))
    if numbers is None or len(numbers) > 2:
        return None
    return numbers[0], numbers[1] if len(numbers) == 2 else 0.0


def _numbers(texts: Sequence[str]) -> list[float] | None:
    """Return finite numbers from texts; None if a text is not a finite number."""
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


@contextmanager
def refused_gains_shown(console: Console) -> Iterator[None]:
    """Return a context in which a :class:`DriveGainError` prints all gains and possible remedies.

    The error means that the motions do not determine a gain accurately enough. It is raised again
    after the output.

    Args:
        console: receives the table of the gains and the remedies.
    """
    try:
        yield
    except DriveGainError as error:
        console.print(gain_table(error.gains, error.accepted_error).on_console())
        console.print(_HELP, markup=False)
        raise
