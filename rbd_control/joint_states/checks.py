"""A check of joint states as one object: settings, memory, compiled test and sentence.

A check is a class that derives from :class:`Check`. Its test is compiled into the kernel that runs
all checks of a sample, so that a sample costs one call, however many checks there are. Settings and
memory of all checks are records, one for each joint and one for the arm, because the overhead of a
call into compiled code depends on the number of arrays, not of their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PASSED, NO_JOINT = -2, -1
"""Results of a test: the check is passed, or it fails for no joint in particular. Every other
result is the index of the joint for which it fails."""


class Sample(NamedTuple):
    """One joint state of an arm, in the order of the model."""

    stamp: float
    """Time of the joint state [s]."""
    now: float
    """Its arrival on a steady clock [s]."""
    q: Array
    """(n,) positions [rad or m]."""
    v: Array
    """(n,) velocities [rad/s or m/s]."""
    effort: Array
    """(n,) measured efforts in any unit; NaN if they are missing."""


class Records(NamedTuple):
    """Numbers of all checks of an arm, by name."""

    joint: NDArray[Any]
    """(n,) records with the numbers of each joint."""
    arm: NDArray[Any]
    """(1,) record with the numbers of the whole arm."""


class Memory(NamedTuple):
    """Memory of all checks of an arm, changed by their tests."""

    joint: NDArray[Any]
    """(n,) records with the numbers of each joint."""
    arm: NDArray[Any]
    """(1,) record with the numbers of the whole arm."""
    pairs: Array
    """(n, n) numbers of each pair of joints, of one check."""


class Finding(NamedTuple):
    """A check that has failed."""

    names: tuple[str, ...]
    """Names of all joints."""
    joint: int
    """Index of the joint, or ``NO_JOINT``."""
    settings: Records
    """The settings with which it failed."""
    memory: Memory
    """The memory of all checks."""

    @property
    def name(self) -> str:
        """Name of the joint."""
        return self.names[self.joint]


class Check:
    """A check of joint states.

    Attributes:
        JOINT, ARM: start values of its memory, by name: of each joint, where a tuple is a row of
            numbers, and of the arm. Other checks of the same list may read them.
        test: compiled function ``(sample, settings, memory)``, which returns ``PASSED``,
            ``NO_JOINT`` or the index of a joint.
        is_final: whether one failure is a fault; otherwise unusable samples are counted.
    """

    JOINT: ClassVar[Mapping[str, float | tuple[float, ...]]] = {}
    ARM: ClassVar[Mapping[str, float]] = {}
    test: ClassVar[Callable[..., Any]]
    is_final: ClassVar[bool] = False

    @staticmethod
    def sentence(found: Finding) -> str:
        """Return what a person is told after the check has failed."""
        raise NotImplementedError


class Checks:
    """The memory of several checks of one arm.

    Args:
        kinds: the checks.
        joints: number of joints.

    Attributes:
        memory: the numbers that the tests change.
    """

    def __init__(self, kinds: tuple[type[Check], ...], joints: int) -> None:
        self.memory = Memory(
            _room({name: value for kind in kinds for name, value in kind.JOINT.items()}, joints),
            _room({name: value for kind in kinds for name, value in kind.ARM.items()}, 1),
            np.zeros((joints, joints)),
        )
        for kind in kinds:
            self.forget(kind)

    def forget(self, kind: type[Check]) -> None:
        """Return the memory of a check to its start values."""
        for name, value in kind.JOINT.items():
            self.memory.joint[name] = value
        for name, value in kind.ARM.items():
            self.memory.arm[name] = value


def _room(starts: Mapping[str, Any], count: int) -> NDArray[Any]:
    """Return ``count`` records with room for numbers like the start values."""
    kinds = [(name, np.asarray(value).dtype, np.shape(value)) for name, value in starts.items()]
    return np.zeros(count, np.dtype(kinds, align=True))


def make_settings(
    joints: int, joint: Mapping[str, Array | float], arm: Mapping[str, float]
) -> Records:
    """Return the settings of checks.

    Args:
        joints: number of joints, n.
        joint: settings of the joints, (n,) each.
        arm: settings of the arm.
    """
    made = Records(_room(dict.fromkeys(joint, 0.0), joints), _room(dict.fromkeys(arm, 0.0), 1))
    for records, values in zip(made, (joint, arm), strict=True):
        for name, value in values.items():
            records[name] = value
    return made
