"""One ROS domain, one probe and one set of processes for each module of system tests."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from _pytest.runner import runtestprotocol

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.ros import transports
from rbd_control.ros.processes import reserved_domain

from .bringup import BringUp, Process
from .controller_setting import NODE, PARAMETERS, holds, resting
from .probe import Probe, Source
from .processor_share import first_at_the_processor
from .quick_discovery import QUICK, quick_profile

T = TypeVar("T")

REPETITIONS = 2
"""Largest number of repetitions of a test whose joint states the machine delayed."""

SETTLED = 2.0
"""Time in which a stall ends and a controller reports the change of its mode [s]."""

DELAYED = pytest.StashKey[str]()
"""Controllers whose joint states the machine delayed in the last run of a test, or ""."""


def fixtures(item: pytest.Item, kind: type[T]) -> list[T]:
    """Return the fixtures of this type that a test has, directly or through others."""
    values: dict[str, object] = getattr(item, "funcargs", {})
    return [value for value in values.values() if isinstance(value, kind)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """End the processes and streams that a test began; those of fixtures go on.

    Also note whether it failed after a stall of the machine; see :mod:`.machine_delays`.
    """
    item.stash[DELAYED] = ""
    with ExitStack() as ends:
        begun = {probe: probe.begun() for probe in fixtures(item, Probe)}
        for probe, before in begun.items():
            ends.callback(probe.end_others, before)
        for bring_up in fixtures(item, BringUp):
            ends.callback(bring_up.end_others, bring_up.started)
        begin = time.monotonic()
        try:
            yield
        except Exception:
            for probe, before in begun.items():
                # The test may fail before the stall ends and is reported.
                time.sleep(SETTLED)
                item.stash[DELAYED] += " ".join(sorted(probe.delays.since(begin)))
                probe.forget(before)
            raise


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Repeat a test that failed only because the machine delayed its joint states.

    A repetition has new fixtures of function scope.
    """
    if not item.path.is_relative_to(Path(__file__).parent):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for repetition in range(REPETITIONS + 1):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        delayed = item.stash.get(DELAYED, "")
        failed = {report.when for report in reports if report.failed}
        if failed != {"call"} or not delayed or repetition == REPETITIONS:
            break
        item.warn(pytest.PytestWarning(f"repeated: the machine delayed joint states of {delayed}"))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="module", autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep to this machine and ahead of its other work, and let wrong types be errors."""
    with pytest.MonkeyPatch.context() as patch, first_at_the_processor():
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        patch.setenv("ROS_PYTHON_CHECK_FIELDS", "1")
        if not getattr(request.module, "DEFAULT_DISCOVERY", False):
            patch.setenv(QUICK, "1")
            patch.setattr(transports, "udp_profile", quick_profile)
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
    holds(probe)
    return source


@pytest.fixture(autouse=True)
def _show_output(request: pytest.FixtureRequest, bring_up: BringUp) -> Iterator[None]:
    """Print the output of the nodes after the test; pytest shows it where the test failed."""
    yield
    print(bring_up.output())
