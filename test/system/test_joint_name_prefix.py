"""A running detector and joint states whose names differ from the model's by a prefix.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from robots import two_arms
from std_msgs.msg import Bool

from .bringup import BringUp, Process
from .detector_setting import MODEL, NODE, PARAMETERS, resting
from .probe import LATCHED, Probe, Source

OTHERS = [f"left_{name}" for name in MODEL.joint_names]
"""Joint names of another arm."""

TAKEN = "joint names differ by a prefix"
"""Log line of a detector that has accepted a prefix."""

LASTING = 300
"""Joint states after which a prefix would have been accepted: 3 s, three times the patience."""


@pytest.fixture
def own(probe: Probe) -> Iterator[Source]:
    """Yield joint states with the names of the model, which are off."""
    source = probe.stream(resting())
    source.on = False
    yield source
    source.on = False


@pytest.fixture
def other(probe: Probe) -> Iterator[Source]:
    """Yield joint states of another arm on the same topic, which are off."""
    source = probe.stream(resting())
    source.names, source.on = OTHERS, False
    yield source
    source.on = False


@pytest.fixture
def detector(bring_up: BringUp) -> Iterator[Process]:
    process = bring_up.start(NODE, PARAMETERS)
    yield process
    process.kill()


def wait_for_verdict(probe: Probe) -> None:
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    count = len(contact)
    probe.wait(lambda: len(contact) > count, "no verdict")


def never_taken(probe: Probe, detector: Process, taken: int) -> None:
    """Check that the joint states of the other arm, which come alone now, are never taken.

    Args:
        probe: the other end of the topics.
        detector: the node.
        taken: number of times that it has accepted a prefix before.
    """
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    probe.wait_for_report(NODE, lambda r: "no usable joint states" in r.message, "takes them")
    before, count = int(probe.report(NODE).values["missing joint"]), len(contact)

    def is_decided() -> bool:
        dropped = int(probe.report(NODE).values.get("missing joint", 0))
        return dropped > before + LASTING or detector.output.count(TAKEN) > taken

    probe.wait(is_decided, "the joint states of the other arm are not counted")
    assert detector.output.count(TAKEN) == taken
    assert "joints taken for the model's" not in probe.report(NODE).values
    assert len(contact) == count, "a verdict on another arm"


def test_another_arm_after_the_own_joint_states(
    probe: Probe, detector: Process, own: Source, other: Source
) -> None:
    """The joint states of the model end; those of another arm do not replace them."""
    own.on = True
    wait_for_verdict(probe)
    own.on, other.on = False, True
    never_taken(probe, detector, taken=0)
    own.on = True
    wait_for_verdict(probe)


def test_another_arm_before_the_own_joint_states(
    probe: Probe, detector: Process, own: Source, other: Source
) -> None:
    """A prefix is accepted until joint states with the names of the model arrive."""
    other.on = True
    detector.wait_until(lambda: TAKEN in detector.output)
    wait_for_verdict(probe)
    assert OTHERS[0] in probe.report(NODE).values["joints taken for the model's"]
    own.on = True
    detector.wait_until(lambda: "joints with the names of the model appeared" in detector.output)
    wait_for_verdict(probe)
    own.on = False
    never_taken(probe, detector, taken=1)


def test_another_arm_of_the_description_before_the_own_joint_states(
    bring_up: BringUp, probe: Probe
) -> None:
    """[9] The driver of the own arm is down; the detector holds the joints of the other arm."""
    node, topic = f"one_of_two/{NODE}", "one_of_two/joint_states"
    own, other = resting(), resting()
    own.on, other.names = False, OTHERS
    for source in (own, other):
        probe.stream(source, topic)
    parameters = {**PARAMETERS, "robot_description": two_arms(), "joints": list(MODEL.joint_names)}
    del parameters["urdf"]
    contact = probe.listen(Bool, f"{node}/contact", LATCHED)
    process = bring_up.start(NODE, parameters, ("-r", "__ns:=/one_of_two"))
    process.wait_until(lambda: "held joints: left_joint_1 at 0.1" in process.output)
    probe.wait_for_report(
        node,
        lambda r: int(r.values.get("missing joint", 0)) > LASTING or TAKEN in process.output,
        "the joint states of the other arm are not counted",
    )
    report = probe.report(node)
    assert TAKEN not in process.output
    assert "joints taken for the model's" not in report.values
    assert "no usable joint states for 0.1 s, last dropped: missing joint" in report.message
    assert report.values["valid"] == "False"
    assert not contact, "a verdict on another arm"
    process.wait_until(lambda: "other joints of the description" in process.output)
    own.on = True
    probe.wait(lambda: contact, "no verdict on the own arm")
    process.kill()
    for source in (own, other):
        probe.end_stream(source)
