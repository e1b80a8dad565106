"""A running adaptive controller: services, clock, termination and restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from . import controller_order_scenarios as scenarios
from .bringup import BringUp, Process
from .controller_scenarios import NODE
from .probe import Probe, Source


@pytest.fixture(scope="module")
def estimates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the controller's estimates."""
    return tmp_path_factory.mktemp("learned") / "arm.yaml"


@pytest.fixture(scope="module")
def process(bring_up: BringUp, estimates: Path) -> Process:
    return bring_up.start(NODE, {**scenarios.LEARNING, "estimates": str(estimates)})


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.energies,
        scenarios.not_passive,
        scenarios.slowed_down,
        scenarios.retracted,
        scenarios.a_clock_that_jumps,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_controller(
    scenario: Callable[[Probe, Source], None], probe: Probe, source: Source
) -> None:
    scenario(probe, source)


def test_frozen(probe: Probe, source: Source, bring_up: BringUp) -> None:
    scenarios.frozen(probe, source, bring_up)


def test_paused_by_its_default(probe: Probe, source: Source, bring_up: BringUp) -> None:
    scenarios.paused_by_its_default(probe, source, bring_up)


def test_killed(
    probe: Probe, source: Source, bring_up: BringUp, process: Process, estimates: Path
) -> None:
    scenarios.killed(probe, source, bring_up, process, estimates)
