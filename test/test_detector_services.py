"""The services of the detector's node and its report of the tare, without a ROS graph."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from detector_bench import Bench, on_joint
from fake_node import FakeNode
from robots import panda_arm_urdf
from std_srvs.srv import Trigger

from rbd_control.dynamics import Model
from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.nodes.detection_output import FlagOutput
from rbd_control.ros.diagnostics import Status


class Node(ContactDetectorNode):
    """The active node of a detector, without publishers and subscriptions."""

    is_active = True
    get_logger = FakeNode().get_logger

    def __init__(self, bench: Bench) -> None:
        nothing = lambda *_: None  # noqa: E731
        self._detector = bench.detector
        self._has_judged, self._model_error = False, ""
        self._unreported = []
        self.robot = SimpleNamespace(model=bench.detector.model)  # type: ignore[assignment]
        kind = SimpleNamespace(start_again=nothing)
        checks: Any = SimpleNamespace(effort_kind=kind, restart_fit=nothing, report=nothing)
        self._checks = checks
        output: Any = SimpleNamespace(publish_release=nothing, clear=nothing)
        self.output = output
        flag: Any = SimpleNamespace(end=nothing, value=False)
        self.flag, self._judged = flag, math.inf  # the verdict is up to date

    def tares(self) -> dict[str, float]:
        """Return the reported tares by joint."""
        status = Status()
        self._report(status)
        values = {item.key: item.value for item in status.values}
        return {
            key.split()[1]: float(value) for key, value in values.items() if key.startswith("tare ")
        }


@pytest.fixture
def bench() -> Bench:
    """A detector with a tare that causes a contact where the residual has the other sign."""
    bench = Bench(Model.from_urdf(panda_arm_urdf()))
    bench.run(3.0, on_joint(1, 0.9))
    bench.detector.tare()
    assert bench.run(0.5, on_joint(1, -0.9))[-1].contact
    return bench


def test_the_service_reset_clears_the_tare(bench: Bench) -> None:
    """[60] The refusal of a tare in contact names the service, which ends the contact."""
    node = Node(bench)
    joints = bench.detector.model.joint_names
    assert node.tares() == {joint: pytest.approx(0.9 * (i == 1)) for i, joint in enumerate(joints)}
    refusal = node.answer("tare", node._tare, Trigger.Response())
    assert not refusal.success
    assert "~/reset" in refusal.message
    assert node.answer("reset", partial(node._reset, clear_tare=True), Trigger.Response()).success
    assert set(node.tares().values()) == {0.0}
    assert not bench.run(1.0, on_joint(1, -0.9))[-1].contact


def test_no_tare_after_the_end_of_the_verdict(bench: Bench) -> None:
    """[60] Joint states had ended; the mean was that of another tool or posture."""
    node = Node(bench)
    node._detector.reset(clear_tare=True)
    bench.run(3.0, on_joint(1, 0.9))
    node._judged = -math.inf
    refusal = node.answer("tare", node._tare, Trigger.Response())
    assert (refusal.success, refusal.message) == (False, "cannot tare: there is no verdict")
    assert set(node.tares().values()) == {0.0}


@pytest.mark.parametrize("restart", ["_on_jump"])
def test_an_automatic_restart_keeps_the_tare(bench: Bench, restart: str) -> None:
    node = Node(bench)
    getattr(node, restart)()
    assert bench.detector.bias[1] == pytest.approx(0.9, abs=1e-5)


def test_without_a_verdict_the_flag_is_not_repeated(bench: Bench) -> None:
    """That there is no verdict is not "no contact"."""
    owner: Any = FakeNode()
    output: Any = SimpleNamespace(publish_waiting_events=lambda: None, repeat=lambda: None)
    node = Node(bench)
    node.flag, node.output = FlagOutput(owner), output
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
