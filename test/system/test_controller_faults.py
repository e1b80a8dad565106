"""Fault scenarios of a running controller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import controller_fault_scenarios as scenarios
from .bringup import BringUp, Process
from .probe import Probe, Source


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.reacts_to_the_contact_flag_in_time,
        scenarios.two_trajectories_at_once,
        scenarios.flooded,
        scenarios.fed_rubbish,
        scenarios.somebody_else_sends_torque,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_controller(
    scenario: Callable[[Probe, Source], None], probe: Probe, source: Source
) -> None:
    scenario(probe, source)


def test_paused(probe: Probe, source: Source, process: Process) -> None:
    scenarios.paused(probe, source, process)


def test_another_of_the_same_name(probe: Probe, source: Source, bring_up: BringUp) -> None:
    scenarios.another_of_the_same_name(probe, source, bring_up)
