"""Plausible positions and velocities of the nodes, and the former names of the parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lone_check import LoneCheck

from rbd_control.control import ControllerParameters
from rbd_control.control.samples import Implausible
from rbd_control.errors import ParameterError
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states.plausibility import FARTHEST

SPEED, JUMP = np.array([2.0, 5.0]), 0.02
NAMES = ("limited", "continuous")
numbers = st.one_of(st.floats(-9.0, 9.0), st.sampled_from([np.nan, np.inf, 1e300, 2e6, 0.02, 5.0]))
pairs = st.tuples(numbers, numbers).map(np.array)


@dataclass(frozen=True)
class LastSample:
    """The last valid sample, whose numbers had been equal for the time ``unchanged`` [s]."""

    q: np.ndarray
    v: np.ndarray
    elapsed: float
    unchanged: float


def refusal(stamp: float, q: np.ndarray, v: np.ndarray, last: LastSample) -> str:
    """Return the refusal without a previous sample, which could confirm a speed."""
    turn = [0.0, 2.0 * np.pi]
    check = LoneCheck(Implausible, NAMES, SPEED, turn, implausible_jump=JUMP, timeout=1.0)
    check.memory.joint["q"], check.memory.joint["v"] = last.q, last.v
    before = stamp - last.elapsed if np.isfinite(stamp) else 0.0
    check.memory.arm["follows"], check.memory.arm["stamp"] = True, before
    check.memory.arm["repeated"] = last.unchanged
    return check.take(stamp, q, v)


few = st.tuples(st.floats(-9, 9), st.floats(-9, 9)).map(np.array)


def is_refused_by_definition(q: np.ndarray, v: np.ndarray, last: LastSample) -> bool:
    """Return the answer by the definition; the positions of joint 1 wrap."""
    if not (np.isfinite(q).all() and np.isfinite(v).all()) or (np.abs(q) > FARTHEST).any():
        return True
    way = np.abs(q - last.q)
    way[1] = abs((q[1] - last.q[1] + np.pi) % (2.0 * np.pi) - np.pi)
    fastest = np.maximum(np.abs(v), np.abs(last.v))
    allowed = JUMP + np.maximum(SPEED, fastest) * last.elapsed + fastest * last.unchanged
    return bool((np.abs(v) > SPEED).any() or (way > allowed).any())


@settings(deadline=None, max_examples=300)
@given(pairs, pairs, st.builds(LastSample, few, few, st.floats(0, 2), st.floats(0, 0.05)))
def test_what_is_refused(q: np.ndarray, v: np.ndarray, last: LastSample) -> None:
    """Exactly the samples that are implausible by definition are rejected."""
    refused = bool(refusal(1.0, q, v, last))
    if refused != is_refused_by_definition(q, v, last):
        # Only rounding may tell the two apart: it is less than 1e-9 rad for these numbers.
        elapsed = last.elapsed
        more = is_refused_by_definition(q, v, replace(last, elapsed=max(elapsed - 1e-9, 0.0)))
        less = is_refused_by_definition(q, v, replace(last, elapsed=elapsed + 1e-9))
        assert more != less


@pytest.mark.parametrize(
    ("q", "v", "stamp", "why"),
    [
        ((2.0 * np.pi, 0.0), (0.0, 0.0), 1.0, "limited jumped by 6.283 in 0.001 s"),
        ((0.0, 0.1 - 4.0 * np.pi), (0.0, 0.0), 1.0, "continuous jumped by 0.1 in 0.001 s"),
        ((0.0, 0.0), (0.0, -5.1), 1.0, "continuous at a speed of -5.1 is implausible (at most 5)"),
        ((0.0, 0.0), (0.0, 0.0), np.inf, "joint states are not finite"),
    ],
)
def test_a_refusal_names_joint_value_and_bound(
    q: tuple[float, ...], v: tuple[float, ...], stamp: float, why: str
) -> None:
    last = LastSample(np.zeros(2), np.zeros(2), 0.001, 0.0)
    said = refusal(stamp, np.array(q), np.array(v), last)
    assert said.startswith(why)
    assert bool(said) == bool(why)


def test_no_sample_before_the_clock_went_back_confirms_a_speed() -> None:
    """An impossible speed in two samples 100 s apart, the later one with the earlier stamp."""
    check = LoneCheck(Implausible, NAMES, SPEED, [0.0, 0.0], implausible_jump=JUMP, timeout=1.0)
    still, fast = np.zeros(2), np.array([1e8, 0.0])
    assert check.take(1000.0, still, fast)
    assert not check.take(900.0, still, still)
    assert check.take(900.005, still, fast)


def test_former_names_of_parameters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text(
        "passivity_controller:\n  ros__parameters: {speed_factor: 3.5, jump_tolerance: 0.01}\n"
    )
    read = ControllerParameters.from_yaml(path, "passivity_controller")
    assert (read.implausible_speed, read.implausible_jump) == (3.5, 0.01)
    with pytest.raises(ParameterError, match="speed_factor is the former name of implausible_spee"):
        ControllerParameters.from_mapping({"speed_factor": 3.0, "implausible_speed": 3.0})
    with pytest.raises(ParameterError, match="no parameter 'speed_factor'"):
        DetectorParameters.from_mapping({"speed_factor": 3.0})
