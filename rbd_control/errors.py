"""The exceptions of the package: one root, one class per kind of offender.

Each derives from ``ValueError`` as well, so that callers who know nothing of this package can
catch what they expect to catch.
"""


class RbdControlError(Exception):
    """Root of every exception the package raises on purpose."""


class ModelError(RbdControlError, ValueError):
    """A robot description cannot become a model; the message names the link or the joint."""


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
