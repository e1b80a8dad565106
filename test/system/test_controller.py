"""The passivity controller as a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import controller_scenarios as scenarios
from .bringup import BringUp
from .fault_setting import hold_again
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


def test_zero_torque_at_the_end(probe: Probe, source: Source, bring_up: BringUp) -> None:
    scenarios.zero_torque_at_the_end(probe, source, bring_up)
