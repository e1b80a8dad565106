"""The middleware refuses messages of nodes and commands, as it does on a machine at its limit."""

from __future__ import annotations

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from std_msgs.msg import Bool, Float64MultiArray

from . import detector_setting as detector
from .bringup import BringUp
from .controller_setting import (
    NODE,
    PARAMETERS,
    WEIGHT,
    count,
    in_space,
    resting,
    torques,
    wait_for_more,
    wait_for_torque,
)
from .probe import Probe

REFUSING = """
from collections import Counter
from rclpy._rclpy_pybind11 import RCLError
from rclpy.publisher import Publisher
from rclpy.service import Service

seen, publish, send = Counter(), Publisher.publish, Service.send_response

def refuse(name, what):
    seen[name] += 1
    if refuses(name, seen[name], what):
        raise RCLError("Failed to publish: injected")

def refusing(self, message):
    refuse(self.topic_name, message)
    publish(self, message)

def not_answering(self, response, header):
    refuse(self.srv_name, response)
    send(self, response, header)

Publisher.publish, Service.send_response = refusing, not_answering

"""
"""Preamble of a node whose middleware refuses what ``refuses(name, number, message)`` tells."""

NOW_AND_THEN = """
def refuses(name, number, _):
    if name.endswith("/commands"):
        return number > 100 and number % 5 == 0
    return number % 2 == 0 or name.endswith("/energy")
"""
"""Each fifth torque, all energies, and half of everything else."""

NO_FLAG = """
def refuses(name, number, message):
    if name.endswith("/contact"):
        if message.data:
            seen["raised"] += 1
        return message.data and seen["raised"] <= 3
    return name.endswith("/events") and number <= 3 or name.endswith("/markers")
"""
"""The first three raised flags, the first three events, and all markers."""


def refused(topic: str) -> str:
    return f"publications refused on {topic}"


def test_single_refusals_do_not_touch_the_control(bring_up: BringUp, probe: Probe) -> None:
    """The arm is held; each topic is counted, and has one warning at a time."""
    space = "now_and_then"
    probe.stream(resting(), f"{space}/joint_states")
    process = bring_up.start(NODE, PARAMETERS, in_space(space), preamble=REFUSING + NOW_AND_THEN)
    commands = torques(probe, space)
    probe.listen(Float64MultiArray, f"{space}/energy")
    wait_for_torque(probe, commands, WEIGHT)
    topics = ("commands", "energy")
    report = probe.wait_for_report(
        space,
        lambda r: all(count(r, refused(f"/{space}/{topic}")) > 10 for topic in topics),
        "does not count refused publications",
    )
    assert (report.values["mode"], report.level) == ("hold", 1)
    assert "publications refused" in report.message
    # A service whose response is refused leaves its client without an answer, and that is all.
    service = probe.node.create_client(GetParameters, f"{space}/get_parameters")
    probe.wait(service.service_is_ready, "no service")
    answers = [service.call_async(GetParameters.Request(names=["timeout"])) for _ in range(2)]
    probe.wait(lambda: any(answer.done() for answer in answers), "answers nothing")
    report = probe.wait_for_report(
        space,
        lambda r: any("refused" in key and "get_parameters" in key for key in r.values),
        "does not count refused responses",
    )
    assert report.values["mode"] == "hold"
    first = len(commands)
    wait_for_more(probe, commands)
    assert np.allclose([message.data for message in commands[first:]], WEIGHT, atol=1e-6)
    assert "safe torque" not in process.output
    process.end()
    assert not np.any(commands[-1].data)


def test_a_refused_verdict_is_published_again(bring_up: BringUp, probe: Probe) -> None:
    """The flag, and the event of the contact; refused markers change nothing."""
    flags = probe.listen(Bool, f"{detector.NODE}/contact")
    events = probe.listen(DiagnosticArray, f"{detector.NODE}/events")
    bring_up.start(detector.NODE, detector.PARAMETERS, preamble=REFUSING + NO_FLAG)
    source = probe.stream(detector.resting())
    probe.wait(lambda: flags and not flags[-1].data, "no verdict")
    detector.touched(source)
    probe.wait(lambda: flags[-1].data, "the flag is not repeated")
    probe.wait(lambda: events, "the event is not repeated")
    values = {item.key: item.value for item in events[0].status[0].values}
    assert values["phase"] == "onset"
    report = probe.wait_for_report(
        detector.NODE,
        lambda r: (
            count(r, refused(f"/{detector.NODE}/markers")) > 0 and r.values.get("contact") == "1"
        ),
        "does not count refused markers, or does not report the contact",
    )
    assert count(report, refused(f"/{detector.NODE}/contact")) == 3
    assert count(report, refused(f"/{detector.NODE}/events")) == 3
    assert not [key for key in report.values if key.startswith("failures of")]
