"""What calibration from recordings needs beside the estimation: the plain arm, and clear errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError, RecordingError
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import DescriptionParameters, RobotParameters
from rbd_control.wording import shortened


@contextmanager
def physical(model: Model) -> Iterator[None]:
    """Turn a result that is beyond the bounds of its parameter into an error about the efforts."""
    try:
        yield
    except ParameterError as error:
        which = re.sub(
            r"\[(\d+)\]",
            lambda found: f" of {shortened(model.joint_names[int(found[1]) % model.nv], 30)}",
            error.message,
        )
        raise RecordingError(
            f"what is identified is not physical: {which}; check sign and unit of its efforts"
        ) from error


def uncorrected(robot: Robot) -> Robot:
    """Return the arm without the corrections and the friction that are to be identified."""
    known = (*DescriptionParameters.names(), *PayloadParameters.names())
    return robot.with_parameters(
        RobotParameters(**{name: getattr(robot.parameters, name) for name in known})
    )
