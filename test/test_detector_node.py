"""The detector's node without a ROS graph: services, report of the tare, changes of parameters."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

import yaml
from builtin_interfaces.msg import Time
from detector_bench import PARAMETERS, Bench, on_joint
from drifting_arm import panda, run
from fake_node import FakeNode
from robots import panda_arm_urdf
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model
from rbd_control.nodes.contact_detector import ContactDetectorNode, ContactDetectorParameters
from rbd_control.nodes.detection_output import DriftOutput, FlagOutput, report_drift
from rbd_control.nodes.model_checks import ModelChecks, VerdictCounts
from rbd_control.ros.diagnostics import Status


class Node(ContactDetectorNode):
    """The active node of a detector, without publishers and subscriptions."""

    is_active = True
    get_logger = FakeNode().get_logger
    parameters: Any = ContactDetectorParameters(
        **{name: getattr(PARAMETERS, name) for name in type(PARAMETERS).names()}
    )
    robot: Any
    flag: Any
    output: Any
    _checks: Any
    _counts: Any = MagicMock()

    def __init__(self, bench: Bench) -> None:
        self._detector = bench.detector
        self._has_judged, self._is_late = True, False
        self._model_error, self._unreported = "", []
        self._judged = math.inf  # the verdict is up to date
        self.flag, self.output, self._checks = MagicMock(value=False), MagicMock(), MagicMock()
        # The joints are in the order of the model.
        self.robot = SimpleNamespace(
            model=bench.detector.model,
            with_parameters=lambda _: self.robot,
            in_model_order=lambda parameters: parameters,
        )

    def change(self, **changes: Any) -> None:
        """Change parameters of the node."""
        self.parameters = replace(self.parameters, **changes)
        self.parameters_changed()

    def tares(self) -> dict[str, float]:
        """Return the reported tares by joint."""
        status = Status()
        self._report(status)
        values = {item.key: item.value for item in status.values}
        return {
            key.split()[1]: float(value) for key, value in values.items() if key.startswith("tare ")
        }


def test_another_rate_than_in_the_calibration_is_named() -> None:
    """Joint states of the bench come at 1 kHz."""
    node: Any = FakeNode()
    parameters = replace(PARAMETERS, calibrated_rate=2000.0)
    bench = Bench(Model.from_urdf(panda_arm_urdf()), parameters)
    checks = ModelChecks(node, lambda: False, lambda: None)
    checks.configure(bench.detector)
    said = "come at 1000 Hz, and thresholds were calibrated at 2000 Hz"

    def reported() -> str:
        status = Status()
        checks.report(status)
        return " ".join(status.messages)

    assert said not in reported()
    bench.run(0.5)
    assert said in reported()
    bench.detector.set_parameters(replace(parameters, calibrated_rate=1000.0))
    assert "calibrated at" not in reported()


@pytest.fixture
def bench() -> Bench:
    bench = Bench(Model.from_urdf(panda_arm_urdf()))
    bench.jitter = 1e-6
    bench.run(0.5)
    return bench


@pytest.fixture
def tared(bench: Bench) -> Bench:
    """A detector with a tare that causes a contact where the residual has the other sign."""
    bench.detector.reset()
    bench.run(3.0, on_joint(1, 0.9))
    bench.detector.tare()
    assert bench.run(0.5, on_joint(1, -0.9))[-1].contact
    return bench


def test_the_service_reset_clears_the_tare(tared: Bench) -> None:
    """The refusal of a tare in contact names the service, which ends the contact."""
    node = Node(tared)
    joints = tared.detector.model.joint_names
    expected = {joint: pytest.approx(0.9 * (i == 1), abs=1e-5) for i, joint in enumerate(joints)}
    assert node.tares() == expected
    node._on_jump()
    assert node.tares() == expected, "an automatic restart keeps the tare"
    assert tared.run(0.5, on_joint(1, -0.9))[-1].contact
    refusal = node.answer("tare", node._tare, Trigger.Response())
    assert not refusal.success
    assert "~/reset" in refusal.message
    assert node.answer("reset", partial(node._reset, clear_tare=True), Trigger.Response()).success
    assert set(node.tares().values()) == {0.0}
    assert not tared.run(1.0, on_joint(1, -0.9))[-1].contact


def test_no_tare_after_the_end_of_the_verdict(tared: Bench) -> None:
    """Joint states had ended; the mean was that of another tool or posture."""
    node = Node(tared)
    node._detector.reset(clear_tare=True)
    tared.run(3.0, on_joint(1, 0.9))
    node._judged = -math.inf
    refusal = node.answer("tare", node._tare, Trigger.Response())
    assert (refusal.success, refusal.message) == (False, "cannot tare: there is no verdict")
    assert set(node.tares().values()) == {0.0}


def test_without_a_verdict_the_flag_is_not_repeated(bench: Bench) -> None:
    """That there is no verdict is not "no contact"."""
    owner: Any = FakeNode()
    node = Node(bench)
    node.flag = FlagOutput(owner)
    flags = owner.published["~/contact"]
    node._repeat()
    assert not flags
    node.flag.publish(False)
    node._repeat()
    assert [message.data for message in flags] == [False, False]
    node.flag.end()
    node._repeat()
    assert [message.data for message in flags] == [False, False]
    assert not node.has_verdict


@pytest.mark.parametrize("is_refuted", [True, False])
def test_a_contact_ends_when_refuted_efforts_are_checked_again(
    bench: Bench, is_refuted: bool
) -> None:
    """The raised flag was repeated, and the contact stayed open until the end of the refutation."""
    node = Node(bench)
    node._checks.effort_kind.is_refuted = is_refuted
    node.change(check_effort_kind=False)
    assert bench.run(0.3, on_joint(1, 3.0))[-1].contact
    node.flag.end.reset_mock()
    node.change(release_ratio=0.6)
    node.flag.end.assert_not_called()
    assert bench.run(0.05, on_joint(1, 3.0))[-1].contact
    node.change(check_effort_kind=True)
    assert node.flag.end.called == is_refuted
    releases = [call.args[0] for call in node.output.publish_release.call_args_list]
    assert [event.phase for event in releases] == ["release"] * is_refuted
    assert bench.run(0.05, on_joint(1, 3.0))[-1].contact != is_refuted


class FollowingNode(Node):
    """A node whose detector follows the friction of a Panda, which is 20 % above the file."""

    def __init__(self) -> None:
        arm = panda()
        super().__init__(SimpleNamespace(detector=arm.detector()))  # type: ignore[arg-type]
        run(self._detector, arm.samples(20.0, lambda t: 1.2 + 0.0 * t))
        self.coulomb, given = arm.coulomb, arm.parameters
        self.parameters = ContactDetectorParameters(
            **{name: getattr(given, name) for name in type(given).names()}
        )
        self.robot.in_joint_order = lambda parameters: parameters


def test_the_service_friction_gives_the_parameters_of_the_day(tared: Bench) -> None:
    node = FollowingNode()
    answer = node.answer("friction", node._friction, Trigger.Response())
    assert answer.success
    values = yaml.safe_load(answer.message)
    assert values["friction_model"] == "coulomb_viscous"
    assert values["friction_coulomb"] == pytest.approx(1.2 * node.coulomb, rel=0.06)
    ContactDetectorParameters(**values)
    refusal = Node(tared).answer("friction", Node(tared)._friction, Trigger.Response())
    assert not refusal.success
    assert "no friction is followed" in refusal.message


def test_diagnostics_have_changes_of_friction_and_the_bounds() -> None:
    node, status = FollowingNode(), Status()
    report_drift(node._detector, status)
    values = {item.key: item.value for item in status.values}
    for each in node._detector.drift:
        assert values[f"friction {each.joint}"].startswith("+")
        limit = node._detector.contact_threshold[0]
        assert float(values[f"always reported at rest {each.joint} [N·m]"]) > limit
        assert float(values[f"always reported in motion {each.joint} [N·m]"]) > limit
    assert float(values["always reported: weakest push at rest [N]"]) > 0.0


def test_drift_is_published_while_it_is_read_and_recoveries_are_logged() -> None:
    detector = FollowingNode()._detector
    node = FakeNode(
        get_fully_qualified_name=lambda: "/arm/contact_detector",
        get_clock=lambda: SimpleNamespace(now=lambda: SimpleNamespace(to_msg=Time)),
    )
    output = DriftOutput(node)  # type: ignore[arg-type]
    (tick,) = node.timers
    tick()  # not configured
    output.detector = detector
    node.published["~/drift"].is_read = False
    tick()
    assert not node.published["~/drift"]
    node.published["~/drift"].is_read = True
    tick()
    (message,) = node.published["~/drift"]
    for status, each in zip(message.status, detector.drift, strict=True):
        assert status.name == f"arm/contact_detector: friction of {each.joint}"
        assert status.message == each.text
        values = {item.key: item.value for item in status.values}
        assert float(values["share"]) == pytest.approx(each.share, rel=1e-5)
    assert not node.lines
    detector._memory.arm["recoveries"] += 1
    tick()
    assert "sudden change of friction" in node.lines[-1]
    assert detector.drift[1].text in node.lines[-1]


def test_the_log_tells_once_when_the_first_verdict_came(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("rbd_control.nodes.model_checks.time.monotonic", lambda: now[0])
    counts = VerdictCounts()
    for k, reason in enumerate([1, 0, 0, 0, 0]):
        now[0] = 12.375 + 0.25 * k
        counts.add(SimpleNamespace(valid=not reason, reason_code=reason), None)  # type: ignore[arg-type]
        assert counts.first_verdict() == ""
    now[0] = 13.625
    assert counts.first_verdict() == "active, first verdict after 2.6 s, 4 Hz"
    assert counts.first_verdict() == ""
