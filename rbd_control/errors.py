"""The exceptions of the package: one root class, and one class per kind of cause.

Each class of a cause also derives from ``ValueError``, so that callers who do not know this package
can catch the exception they expect.
"""

from __future__ import annotations


class RbdControlError(Exception):
    """Base class of every exception that the package raises on purpose.

    Attributes:
        path: path of the invalid input file; empty if the error does not concern a file, or if the
            file is unknown. ``str(error)`` begins with the path.
    """

    path: str = ""

    @property
    def message(self) -> str:
        """The problem and its remedy, without the path."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ModelError(RbdControlError, ValueError):
    """A robot description cannot become a model; the message names the link or the joint."""


class ModelWarning(UserWarning):
    """An input is accepted although it is doubtful, such as a physically impossible description."""


class InputError(RbdControlError, ValueError):
    """An argument or a call is not acceptable; the message names the argument or the reason.

    For example, an argument has the wrong shape, is not finite, or is a name that the model lacks,
    or the present state of the robot does not permit the call.
    """


class ParameterError(RbdControlError, ValueError):
    """A parameter, or a combination of parameters, is invalid or not supported."""


class TrajectoryError(RbdControlError, ValueError):
    """A trajectory is refused; the message has the point and the reason."""


class StalePlanError(TrajectoryError):
    """A planned trajectory no longer continues the arm's motion; plan it again."""


class RecordingError(RbdControlError, ValueError):
    """A recording cannot be read, or has no usable data."""
