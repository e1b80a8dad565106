"""Silence of ``~/contact`` means that there is no verdict, also for late subscribers.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Bool

from rbd_control.ros.messages import verdict_qos

from .bringup import BringUp
from .detector_setting import NODE, PARAMETERS, released, resting, touched
from .probe import LATCHED, Probe, Source

TOPIC = f"{NODE}/contact"
VOLATILE = QoSProfile(depth=1000)


@pytest.fixture
def newcomer(bring_up: BringUp) -> Iterator[Callable[[], Probe]]:
    """Yield a function that creates undiscovered participants."""
    probes: list[Probe] = []

    def make() -> Probe:
        probes.append(Probe(bring_up.domain))
        return probes[-1]

    try:
        yield make
    finally:
        for probe in probes:
            probe.close()


def wait_for_flag(probe: Probe, flag: bool) -> None:
    contact = probe.listen(Bool, TOPIC, VOLATILE)
    count = len(contact)
    probe.wait(lambda: len(contact) > count and contact[-1].data == flag, f"contact is not {flag}")


def wait_for_silence(probe: Probe) -> None:
    """Wait for two reports between which no verdict came."""
    contact = probe.listen(Bool, TOPIC, VOLATILE)

    def silent() -> bool:
        count = len(contact)
        probe.later_report(NODE)
        return len(contact) == count

    probe.wait(silent, "verdicts go on")


def test_late_subscribers(bring_up: BringUp, probe: Probe, newcomer: Callable[[], Probe]) -> None:
    """[9, 11, 58] They receive the valid flag, and no message once there is no verdict."""
    bring_up.start(NODE, PARAMETERS)
    source: Source = probe.stream(resting())
    for flag, change in ((True, touched), (False, released)):
        change(source)
        source.on = True
        wait_for_flag(probe, flag)
        for qos in (LATCHED, VOLATILE):
            late = newcomer()
            heard = late.listen(Bool, TOPIC, qos)
            late.wait(lambda heard=heard: len(heard) > 3, "a valid verdict is not heard")
            assert all(message.data == flag for message in heard)
        source.on = False
        wait_for_silence(probe)
        for qos in (LATCHED, VOLATILE):
            late = newcomer()
            heard = late.listen(Bool, TOPIC, qos)
            late.wait(
                lambda late=late: late.node.count_publishers(TOPIC), "the detector is not found"
            )
            late.report(NODE)  # what the detector sends reaches the newcomer by now
            late.report(NODE)
            assert not heard, "a verdict that was lost before"


def test_the_last_verdict_is_kept_only_where_it_expires() -> None:
    """A middleware without lifespan would keep it for ever."""
    for middleware in ("rmw_fastrtps_cpp", "rmw_fastrtps_dynamic_cpp", "rmw_cyclonedds_cpp"):
        qos = verdict_qos(middleware)
        assert qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
        assert 0 < qos.lifespan.nanoseconds <= 100_000_000
    assert verdict_qos("rmw_zenoh_cpp").durability == DurabilityPolicy.VOLATILE
