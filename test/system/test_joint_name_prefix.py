"""A running detector and joint states whose names differ from the model's by a prefix."""

from __future__ import annotations

from std_msgs.msg import Bool

from .bringup import BringUp
from .detector_setting import MODEL, NODE, PARAMETERS, resting, wait_for_flag
from .probe import LATCHED, Probe

OTHERS = [f"left_{name}" for name in MODEL.joint_names]
"""Joint names of another arm."""

TAKEN = "joint names differ by a prefix"
"""Log line of a detector that has accepted a prefix."""

LASTING = 200
"""Joint states after which a prefix would have been accepted: 2 s, twice the patience."""


def test_another_arm_before_the_own_joint_states(bring_up: BringUp, probe: Probe) -> None:
    """A prefix is accepted until joint states with the names of the model arrive.

    When these end, the joint states of the other arm, which come alone then, are never taken again.
    """
    own, other = resting(), resting()
    own.on, other.names = False, OTHERS
    for source in (own, other):
        probe.stream(source)
    detector = bring_up.start(NODE, PARAMETERS)
    contact = probe.listen(Bool, f"{NODE}/contact", LATCHED)
    detector.wait_until(lambda: TAKEN in detector.output)
    probe.wait(lambda: contact, "no verdict")
    assert OTHERS[0] in probe.report(NODE).values["joints taken for the model's"]
    own.on = True
    detector.wait_until(lambda: "joints with the names of the model appeared" in detector.output)
    wait_for_flag(probe, contact, False)
    own.on = False
    probe.wait_for_report(NODE, lambda r: "no usable joint states" in r.message, "takes them")
    before, count = int(probe.report(NODE).values["missing joint"]), len(contact)
    probe.wait_for_report(
        NODE,
        lambda r: int(r.values["missing joint"]) > before + LASTING,
        "the joint states of the other arm are not counted",
    )
    assert detector.output.count(TAKEN) == 1
    assert "joints taken for the model's" not in probe.report(NODE).values
    assert len(contact) == count, "a verdict on another arm"
