"""Silence of ``~/contact`` means that there is no verdict, also for late subscribers."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.qos import QoSProfile
from std_msgs.msg import Bool

from .bringup import BringUp
from .detector_setting import NODE, PARAMETERS, resting, touched, wait_for_flag
from .probe import LATCHED, Heard, Probe

TOPIC = f"{NODE}/contact"
VOLATILE = QoSProfile(depth=1000)


def test_late_subscribers(bring_up: BringUp, probe: Probe) -> None:
    """They receive the valid flag, and no message once there is no verdict."""
    bring_up.start(NODE, PARAMETERS)
    source = probe.stream(resting())
    touched(source)
    contact = probe.listen(Bool, TOPIC, VOLATILE)
    wait_for_flag(probe, contact, True)

    def heard_by_a_newcomer(wait: Callable[[Probe, Heard], object]) -> list[Bool]:
        """Return what an undiscovered participant receives, with both kinds of subscription."""
        late = Probe(bring_up.domain)
        try:
            both = [late.listen(Bool, TOPIC, LATCHED)]
            late.node.create_subscription(
                Bool, TOPIC, (volatile := Heard(Bool)).add, 1000, raw=True
            )
            both.append(volatile)
            for heard in both:
                wait(late, heard)
            return [message for heard in both for message in list(heard)]
        finally:
            late.close()

    def some(late: Probe, heard: Heard) -> None:
        late.wait(lambda: len(heard) > 3, "a valid verdict is not heard")

    def all_that_comes(late: Probe, heard: Heard) -> None:
        late.wait(lambda: late.node.count_publishers(TOPIC), "the detector is not found")
        late.report(NODE)  # what the detector sends reaches the newcomer by now
        late.report(NODE)

    assert all(message.data for message in heard_by_a_newcomer(some))
    source.on = False
    probe.wait_for_report(NODE, lambda r: r.values.get("valid") == "0", "nothing is missed")
    probe.later_report(NODE)
    assert not heard_by_a_newcomer(all_that_comes), "a verdict that was lost before"
