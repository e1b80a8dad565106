"""The contact detector as a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import detector_input_scenarios as inputs
from . import detector_parameter_scenarios as parameters
from . import detector_scenarios as scenarios
from .bringup import BringUp
from .probe import Probe, Source


@pytest.fixture(scope="module")
def streamed(bring_up: BringUp, probe: Probe) -> Source:
    bring_up.start(scenarios.NODE, scenarios.PARAMETERS)
    return probe.stream(scenarios.resting())


@pytest.fixture
def source(streamed: Source) -> Source:
    """Return the joint states that the detector receives, at rest."""
    vars(streamed).update(vars(scenarios.resting()), publishers=streamed.publishers)
    return streamed


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.flag_and_torque,
        scenarios.the_check_of_the_first_seconds,
        scenarios.no_verdict_without_effort_or_velocity,
        inputs.unusable_messages_are_dropped,
        inputs.absurd_efforts,
        inputs.a_joint_without_effort,
        parameters.absurd_parameters,
        scenarios.joints_by_name,
        parameters.parameters_change_as_a_whole,
        parameters.live_parameters,
        parameters.settings_that_hear_nothing,
        parameters.a_model_that_does_not_fit,
        inputs.doubtful_data,
        inputs.fresh_efforts_of_a_repeated_pose,
        inputs.bursts,
        inputs.publishers_come_and_go,
        inputs.a_clock_that_jumps,
        scenarios.tare_and_reset,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_detector(scenario: Callable[[Probe, Source], None], probe: Probe, source: Source) -> None:
    scenario(probe, source)
