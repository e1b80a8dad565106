"""The passivity controller as a process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sensor_msgs.msg import JointState

from rbd_control.ros.messages import to_seconds

from . import controller_scenarios as scenarios
from .bringup import BringUp
from .fault_setting import hold_again, set_parameters
from .probe import Probe, Source


@pytest.fixture(scope="module")
def source(bring_up: BringUp, probe: Probe) -> Source:
    """Return the joint states that the controller receives."""
    bring_up.start(scenarios.NODE, scenarios.PARAMETERS)
    return probe.stream(scenarios.resting())


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.no_start_without_velocity,
        scenarios.holds,
        scenarios.bad_trajectories_leave_the_old_one,
        scenarios.torque_is_cut_to_its_limits,
        scenarios.safe_when_joint_states_end,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_controller(
    scenario: Callable[[Probe, Source], None], probe: Probe, source: Source
) -> None:
    try:
        scenario(probe, source)
    except AssertionError:
        ends_them = scenario is scenarios.safe_when_joint_states_end
        if ends_them or "no joint states for" not in probe.report(scenarios.NODE).message:
            raise
        # The machine has delayed joint states by more than the timeout, which is a fault, and no
        # failure of the controller.
        hold_again(probe)
        scenario(probe, source)


RATE = 5.0
"""Largest rate of a torque [N·m/s]; the payload's weight takes about a second."""


def test_the_torque_changes_at_its_rate(probe: Probe, source: Source) -> None:
    """[41] A payload would change it in one step; it changes by at most ``torque_rate``."""
    errors = probe.listen(JointState, f"{scenarios.NODE}/tracking_error")

    def steady() -> bool:
        efforts = np.array([message.effort for message in errors[-20:]])
        return bool(np.ptp(efforts, axis=0).max() == 0.0)

    try:
        hold_again(probe)
        assert set_parameters(probe, scenarios.NODE, torque_rate=[RATE]).successful
        first = len(errors)
        assert set_parameters(probe, scenarios.NODE, payload_mass=0.5).successful
        probe.wait(
            lambda: np.abs(errors[-1].effort - scenarios.WEIGHT).max() > 0.5 and steady(),
            "the torque does not carry the payload",
        )
        torque = np.array([message.effort for message in errors[first:]])
        stamps = np.array([to_seconds(message.header.stamp) for message in errors[first:]])
    finally:
        changes = {"torque_rate": [20_000.0], "payload_mass": 0.0}
        assert set_parameters(probe, scenarios.NODE, **changes).successful
    rates = np.abs(np.diff(torque, axis=0)).max(axis=1) / np.diff(stamps)
    # Stamps of today have a resolution of 0.3 us as floating-point numbers, 3e-5 of a period.
    assert rates.max() == pytest.approx(RATE, rel=2e-4)
    assert np.count_nonzero(rates > 0.9 * RATE) > 20


def test_zero_torque_at_the_end(probe: Probe, source: Source, bring_up: BringUp) -> None:
    scenarios.zero_torque_at_the_end(probe, source, bring_up)
