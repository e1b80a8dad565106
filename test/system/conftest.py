"""One ROS domain, one probe and one set of processes for each module of system tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes.processes import reserved_domain

from .bringup import BringUp, Process
from .controller_scenarios import NODE, PARAMETERS, holds, resting
from .probe import Probe, Source
from .processor_share import first_at_the_processor


@pytest.fixture(scope="module", autouse=True)
def _alone() -> Iterator[None]:
    """Keep to this machine and ahead of its other work, and let wrong types be errors."""
    with pytest.MonkeyPatch.context() as patch, first_at_the_processor():
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        patch.setenv("ROS_PYTHON_CHECK_FIELDS", "1")
        yield


@pytest.fixture(scope="module")
def bring_up(_alone: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BringUp]:
    """Yield a starter of executables in a domain of this module's own."""
    with reserved_domain() as domain:
        bring_up = BringUp(domain, tmp_path_factory.mktemp("nodes"))
        try:
            yield bring_up
        finally:
            bring_up.stop()


@pytest.fixture(scope="module")
def probe(bring_up: BringUp) -> Iterator[Probe]:
    """Yield the other end of the topics."""
    probe = Probe(bring_up.domain)
    try:
        yield probe
    finally:
        probe.close()


@pytest.fixture(scope="module")
def process(bring_up: BringUp) -> Process:
    """Return a running controller; modules that need other parameters override this fixture."""
    return bring_up.start(NODE, PARAMETERS)


@pytest.fixture(scope="module")
def source(probe: Probe, process: Process) -> Source:
    """Return the joint states that the controller receives, once it holds the arm."""
    source = probe.stream(resting())
    holds(probe, source)
    return source


@pytest.fixture(autouse=True)
def _show_output(request: pytest.FixtureRequest, bring_up: BringUp) -> Iterator[None]:
    """Print the output of the nodes after the test; pytest shows it where the test failed."""
    yield
    print(bring_up.output())
