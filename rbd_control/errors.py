"""The exceptions of the package: one root class, one class per kind of offender.

Each class also derives from ``ValueError``, so that callers who do not know this package can catch
the exception they expect.
"""

from __future__ import annotations


class RbdControlError(Exception):
    """Root of every exception that the package raises on purpose.

    Attributes:
        path: the input file at fault; empty when no file is at fault or the file is not known yet.
            ``str(error)`` begins with it.
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
    """A robot description is accepted as it is, but something in it cannot be right."""


class InputError(RbdControlError, ValueError):
    """An argument has the wrong shape, is not finite, or names something the model lacks."""


class ParameterError(RbdControlError, ValueError):
    """A parameter is unknown, out of bounds, not finite, or of the wrong length."""


class TrajectoryError(RbdControlError, ValueError):
    """A trajectory is refused; the message says which point and why."""


class StalePlanError(TrajectoryError):
    """A planned trajectory does not follow on from the arm's motion any more; plan it again."""


class RecordingError(RbdControlError, ValueError):
    """A recording cannot be read, or holds nothing that can be used."""
