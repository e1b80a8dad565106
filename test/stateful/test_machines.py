"""Run the state machines: briefly here, at length with ``make test-long``.

``RBD_STATEFUL_EXAMPLES`` sets the number of examples of each machine; they are then random, and a
failure prints the steps that led to it. Without it the few examples are always the same.
"""

from __future__ import annotations

import os
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from bench.mutations.__main__ import find
from bench.mutations.defects import DEFECTS, Defect
from rbd_control.control import ControllerParameters
from stateful.controller_machine import ControllerMachine
from stateful.detector_machine import DetectorMachine
from stateful.drawing import PARAMETERS

MANY = int(os.environ.get("RBD_STATEFUL_EXAMPLES", "0"))
FEW = {ControllerMachine: 40, DetectorMachine: 30}
"""Examples that take about ten seconds on one core."""


@pytest.mark.timeout(24 * 3600 if MANY else 300)
@pytest.mark.parametrize("machine", FEW, ids=lambda machine: machine.__name__)
def test_every_promise_is_kept_in_any_order_of_events(
    machine: type[RuleBasedStateMachine],
) -> None:
    machine.examples = machine.samples = 0
    chosen = settings(
        max_examples=MANY or FEW[machine],
        stateful_step_count=30,
        derandomize=not MANY,
        phases=list(Phase) if MANY else [Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=chosen)
    examples, samples = machine.examples, machine.samples  # type: ignore[attr-defined]
    print(f"\n{machine.__name__}: {examples} examples, {samples} joint states, no promise broken")
    assert examples >= (MANY or FEW[machine])


def test_every_live_parameter_of_the_controller_is_drawn() -> None:
    live = {item.name for item in fields(ControllerParameters) if item.metadata["live"]}
    assert live == set(PARAMETERS)


MOST = 100
"""Most examples with a defect; from 1 to about 20 reach the changed code."""


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: f"defect {defect.number}")
def test_a_defect_can_still_be_put_back(defect: Defect) -> None:
    """The changed code exists and is reached, and the changes use no name that it lacks."""
    broken, _, _ = find(defect, MOST, 2, until_reached=True)
    assert not broken or broken in defect.promises
