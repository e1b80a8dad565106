"""Times of the stages between the stamp of a joint state and the torque on the wire.

A :class:`StageClock` replaces functions of this package and of rclpy by functions that measure the
time of the original. The times are self times: if a stage calls another stage, the time of the
inner stage does not count for the outer stage.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from struct import unpack_from
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.publisher import Publisher

from rbd_control.control import PassivityController
from rbd_control.control.energy import EnergyAccount
from rbd_control.estimation import ContactDetector
from rbd_control.joint_states import JointStateIntake
from rbd_control.joint_states.cdr import HEAD, JointStateReader
from rbd_control.ros.joint_state_input import JointStateInput
from rbd_control.ros.messages import Arrivals, NumberWriter, Template

RECEIVE, REST, TOTAL = "receive", "rest", "total"


@dataclass(frozen=True)
class Stage:
    """A stage in the processing of a joint state.

    Attributes:
        name: short name.
        whose: the software that uses the time.
        content: description of the work.
        methods: classes and names of the methods whose time counts; empty for stages that are
            measured in another way.
    """

    name: str
    whose: str
    content: str
    methods: tuple[tuple[type, str], ...] = ()


STAGES = (
    Stage(RECEIVE, "DDS, rclpy", "stamp to callback: DDS, wake-up of the process, rclpy's take"),
    Stage("take", "rclpy", "look for further joint states in the queue", ((Arrivals, "take"),)),
    Stage("deserialise", "ours", "bytes to numbers", ((JointStateReader, "read"),)),
    Stage(
        "intake",
        "ours",
        "order of the joints, checks, time of the sample",
        ((JointStateIntake, "accept"),),
    ),
    Stage("detector", "ours", "momentum balance, observer, verdict", ((ContactDetector, "judge"),)),
    Stage("controller", "ours", "checks, motion, law, limits", ((PassivityController, "update"),)),
    Stage(
        "serialise",
        "ours",
        "torque, tracking error, external torque to bytes",
        ((Template, "filled"),),
    ),
    Stage("publish", "rclpy, DDS", "publication of these bytes", ((Publisher, "publish"),)),
    Stage(
        "isolation",
        "ours",
        "link, force and start of a contact, after the torque is sent",
        ((ContactDetector, "complete"),),
    ),
    Stage(
        "energies",
        "ours",
        "energy monitor, after the torque is sent",
        ((EnergyAccount, "balance"),),
    ),
    Stage(REST, "ours", "all else in the callback: bookkeeping of the nodes"),
    Stage(TOTAL, "all", "stamp to the end of the publication of the torque"),
)
"""Stages in the order in which they are reported."""


@dataclass(frozen=True)
class StageTime:
    """Time of one stage per joint state [µs]."""

    stage: str
    whose: str
    content: str
    mean: float
    median: float
    p99: float


class StageClock:
    """Measures the stages of each joint state that the callback of a subscription processes.

    Call :meth:`install` once; :attr:`times` then grows with each joint state that ends in a torque.
    """

    def __init__(self) -> None:
        self._times = array("q")
        """A row of nanoseconds for each joint state, in the order of :data:`STAGES`."""
        self._row = _new_row()
        self._inner = 0
        self._is_inside = False

    def install(self) -> None:
        """Replace the measured methods, for the life of the process."""
        for stage in STAGES:
            for owner, name in stage.methods:
                setattr(owner, name, self._timed(getattr(owner, name), stage.name))
        self._measure_callback()
        self._measure_torque()

    @property
    def times(self) -> NDArray[np.int64]:
        """Times of k joint states, (k, number of stages) [ns], in the order of STAGES."""
        return np.array(self._times, dtype=np.int64).reshape(-1, len(STAGES))

    def _timed(self, original: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @wraps(original)
        def timed(*arguments: Any, **options: Any) -> Any:
            if not self._is_inside:
                return original(*arguments, **options)
            outer, self._inner = self._inner, 0
            begin = time.perf_counter_ns()
            try:
                return original(*arguments, **options)
            finally:
                took = time.perf_counter_ns() - begin
                self._row[stage] += took - self._inner
                self._inner = outer + took

        return timed

    def _measure_callback(self) -> None:
        original = JointStateInput._receive

        @wraps(original)
        def receive(this: JointStateInput, first: bytes | None) -> None:
            arrived, begin = time.time_ns(), time.perf_counter_ns()
            self._row = _new_row()
            self._inner, self._is_inside = 0, True
            try:
                original(this, first)
            finally:
                self._is_inside = False
            if first is not None and self._row[TOTAL]:
                self._row[REST] = time.perf_counter_ns() - begin - self._inner
                self._row[RECEIVE] = arrived - _stamp(first)
                self._row[TOTAL] -= _stamp(first)
                self._times.extend(self._row.values())

        JointStateInput._receive = receive  # type: ignore[method-assign, assignment]

    def _measure_torque(self) -> None:
        original = NumberWriter.publish

        @wraps(original)
        def publish(this: NumberWriter, values: np.ndarray) -> bool:
            is_published = original(this, values)
            self._row[TOTAL] = time.time_ns()
            return is_published

        NumberWriter.publish = publish  # type: ignore[method-assign, assignment]


def stage_times(times: NDArray[np.int64]) -> list[StageTime]:
    """Return mean, median and p99 of each stage, in the order of :data:`STAGES`.

    Args:
        times: rows of :attr:`StageClock.times`, (k, number of stages) [ns], k at least 1.
    """
    return [
        StageTime(
            stage.name,
            stage.whose,
            stage.content,
            float(column.mean()),
            float(np.median(column)),
            float(np.percentile(column, 99.0)),
        )
        for stage, column in zip(STAGES, times.T / 1e3, strict=True)
    ]


def _new_row() -> dict[str, int]:
    return {stage.name: 0 for stage in STAGES}


def _stamp(message: bytes) -> int:
    """Return the stamp of a serialized joint state [ns]."""
    seconds, nanoseconds = unpack_from("<iI", message, HEAD)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
