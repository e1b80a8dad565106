"""Parameters of the detector's node that change while it runs, without a ROS graph."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from detector_bench import PARAMETERS, Bench, on_joint
from robots import panda_arm_urdf

from rbd_control.dynamics import Model
from rbd_control.nodes.contact_detector import ContactDetectorNode, ContactDetectorParameters


class Robot(SimpleNamespace):
    """The arm of a node whose joints are in the order of the model."""

    def with_parameters(self, _parameters: object) -> Robot:
        return self

    def in_model_order(self, parameters: Any) -> Any:
        return parameters


class Node(ContactDetectorNode):
    """The active node of a detector, without publishers and subscriptions."""

    is_active = True
    parameters: Any = None
    robot: Any
    flag: Any
    output: Any
    _checks: Any

    def __init__(self, bench: Bench) -> None:
        self._detector, self.robot = bench.detector, Robot(model=bench.detector.model)
        self.flag, self.output, self._checks = MagicMock(), MagicMock(), MagicMock()
        self._has_judged, self._model_error = True, ""
        self.parameters = ContactDetectorParameters(
            **{name: getattr(PARAMETERS, name) for name in type(PARAMETERS).names()}
        )

    def change(self, **changes: Any) -> None:
        """Change parameters of the node."""
        self.parameters = replace(self.parameters, **changes)
        self.parameters_changed()


@pytest.fixture
def bench() -> Bench:
    bench = Bench(Model.from_urdf(panda_arm_urdf()))
    bench.jitter = 1e-6
    bench.run(0.5)
    return bench


@pytest.mark.parametrize("is_refuted", [True, False])
def test_a_contact_ends_when_refuted_efforts_are_checked_again(
    bench: Bench, is_refuted: bool
) -> None:
    """The raised flag was repeated, and the contact stayed open until the end of the refutation."""
    node = Node(bench)
    node._checks.effort_kind.is_refuted = is_refuted
    node.change(check_effort_kind=False)
    assert bench.run(0.3, on_joint(1, 3.0))[-1].contact
    assert [event.phase for event in bench.events] == ["onset"]
    node.flag.end.reset_mock()
    node.change(release_ratio=0.6)
    node.flag.end.assert_not_called()
    assert bench.run(0.05, on_joint(1, 3.0))[-1].contact
    node.change(check_effort_kind=True)
    assert node.flag.end.called == is_refuted
    releases = [call.args[0] for call in node.output.publish_release.call_args_list]
    assert [event.phase for event in releases] == ["release"] * is_refuted
    if is_refuted:
        assert releases[0].release == pytest.approx(bench.t)
    else:
        assert bench.run(0.05, on_joint(1, 3.0))[-1].contact
