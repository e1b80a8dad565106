"""Detector and controller in one process: nothing of the detector may keep the torque waiting."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from detector_bench import Bench, on_joint
from rcl_interfaces.srv import SetParameters
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from robots import panda_arm_urdf

from rbd_control.dynamics import Model
from rbd_control.joint_states import JointSample
from rbd_control.nodes import contact_aware_controller
from rbd_control.nodes.contact_aware_controller import InProcessDetector, SharedSamples
from rbd_control.parameters import Parameters, parameter
from rbd_control.ros.declared_parameters import DeclaredParameters
from rbd_control.ros.joint_state_input import SAMPLES
from rbd_control.ros.messages import Stamp

ACTIVE = "passivity_controller"


class Detector(InProcessDetector):
    """A detector node without a ROS graph.

    Attributes:
        lines: lines in the log.
    """

    is_active = False
    flag: Any
    output: Any
    _grasped: Any

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stopping = self.is_configuring = self._is_configured = False
        self._failure = self._source = self._shared = None
        self._model_error = ""
        self._grasped = SimpleNamespace(gripper=None)
        self._beside = None
        self.interrupts = lambda: ACTIVE
        self.flag, self.output = MagicMock(), MagicMock()

    def get_logger(self) -> Any:
        return SimpleNamespace(error=self.lines.append)


class Controller(SimpleNamespace):
    """What :func:`make_nodes` uses of a controller."""

    on_contact = on_force = errors = None

    def get_name(self) -> str:
        return ACTIVE


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> tuple[Detector, Controller]:
    """Return the nodes as :func:`make_nodes` connects them, none of them configured."""
    detector, controller = Detector(), Controller(is_active=False, is_configured=False)
    monkeypatch.setattr(contact_aware_controller, "InProcessDetector", lambda: detector)
    monkeypatch.setattr(
        contact_aware_controller, "PassivityControllerNode", lambda **_options: controller
    )
    contact_aware_controller.make_nodes()
    return detector, controller


def test_a_detector_is_not_configured_beside_an_active_controller(
    nodes: tuple[Detector, Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 70 ms, in which the watchdog sent zero torque: a fault of the controller."""
    detector, controller = nodes
    configured: list[bool] = []
    monkeypatch.setattr(detector, "_find_model_and_configure", lambda: configured.append(True))
    controller.is_active = True
    state: Any = None
    assert detector.on_configure(state) == TransitionCallbackReturn.FAILURE
    (line,) = detector.lines
    assert "passivity_controller is active" in line
    assert "deactivate passivity_controller first" in line
    # An automatic start waits, and does not end the process.
    assert "passivity_controller to be deactivated" in detector.missing_to_configure()
    controller.is_active = False
    assert detector.missing_to_configure() == ""
    assert detector.on_configure(state) == TransitionCallbackReturn.SUCCESS
    assert configured == [True]


@dataclass(frozen=True)
class Two(Parameters):
    """Two parameters."""

    times: tuple[float, ...] = parameter((1.0,), "times", unit="s", lower=0.0, upper=9.0)
    label: str = parameter("a", "label")


class Declared:
    """Parameters declared on a node.

    Attributes:
        declared: the parameters.
        checked: objects that were checked.
        sends_torque: whether a node of the process sends torque.
    """

    def __init__(self) -> None:
        node = MagicMock(_parameter_overrides={})
        node.declare_parameter.side_effect = lambda _name, value, _descriptor: MagicMock(
            value=value
        )
        self.checked: list[Two] = []
        self.declared = DeclaredParameters(
            node, Two, lambda: False, self.checked.append, lambda _new: None
        )
        self.sends_torque = True
        self._answer = self.declared.taking_together(
            self._set, self._set_at_once, lambda: self.sends_torque
        )

    def _set(self, request: Any, response: Any) -> Any:
        for each in request.parameters:
            changes = [Parameter.from_parameter_msg(each)]
            response.results.append(self.declared._on_set(changes))
            if response.results[-1].successful:
                self.declared._after_set(changes)
        return response

    def _set_at_once(self, request: Any, response: Any) -> Any:
        changes = list(map(Parameter.from_parameter_msg, request.parameters))
        response.result = self.declared._on_set(changes)
        if response.result.successful:
            self.declared._after_set(changes)
        return response

    def set(self, **values: Any) -> list[Any]:
        """Answer a request to set parameters one after the other; return the results."""
        request = SetParameters.Request(
            parameters=[Parameter(name, value=x).to_parameter_msg() for name, x in values.items()]
        )
        return list(self._answer(request, SetParameters.Response()).results)


def test_several_changes_are_one_change_while_torque_is_sent() -> None:
    """``ros2 param load`` took 5 ms for each changed parameter, in which no torque was sent."""
    node = Declared()
    node.sends_torque = False
    assert all(result.successful for result in node.set(times=[2.0], label="b"))
    assert node.checked == [Two((2.0,), "a"), Two((2.0,), "b")]
    node.checked.clear()
    node.sends_torque = True
    assert all(result.successful for result in node.set(times=[3.0], label="c"))
    assert node.checked == [Two((3.0,), "c")]
    assert node.declared.current == Two((3.0,), "c")
    # A change that is refused refuses the others too, and each result has the reason.
    results = node.set(times=["x"], label="d")
    assert [result.successful for result in results] == [False, False]
    assert "times" in results[1].reason
    assert node.declared.current == Two((3.0,), "c")
    # One that differs, and one that has its present value: one after the other.
    results = node.set(times=["x"], label="c")
    assert [result.successful for result in results] == [False, True]


def test_an_onset_in_the_sample_before_a_jump_of_the_clock_is_published() -> None:
    """Both samples came in one turn, and the restart of the detector discarded the onset."""
    bench = Bench(Model.from_urdf(panda_arm_urdf()))
    bench.run(1.0)
    detector = Detector()
    detector.is_active = True
    detector._detector, detector._unreported = bench.detector, []
    detector._payload, detector._counts = MagicMock(is_pending=False), MagicMock()
    detector._checks, detector._is_late = MagicMock(), False
    detector._checks.effort_kind.is_refuted = False
    detector.errors = SimpleNamespace(run=lambda _name, callback, *values: callback(*values))  # type: ignore[assignment]
    detector.output.needs_tool_wrench = False
    found: list[str] = []

    def publish(judged: Any, _verdict: Any) -> Any:
        detection = judged.detection if judged.is_completed else bench.detector.complete()
        found.extend([detection.event.phase] if detection.event else [])
        return detection

    detector.output.publish.side_effect = publish
    detector.output.publish_release.side_effect = lambda event: found.append(event.phase)
    shared = MagicMock(spec=SharedSamples)

    def tap(stamp: float, external: Any, after_jump: bool = False) -> None:
        tau = bench.g - external
        sample = JointSample(stamp, bench.q, bench.v, tau, after_jump)
        detector._tap(shared, sample, Stamp(int(stamp), 0))

    push = on_joint(1, 8.0)
    for k in range(100):  # one turn for each sample, until the flag is raised
        tap(bench.t + 0.001 * (k + 1), push + 1e-6 * k)
        if detector._unreported[-1].verdict.contact:  # type: ignore[union-attr]
            break
        detector.report()
    assert not found
    tap(1.0, np.zeros(7), after_jump=True)  # in the same turn
    detector.report()
    assert found == ["onset", "release"]


def test_a_failure_with_a_sample_restarts_the_detector() -> None:
    """Its memory may be half updated, and the next verdict would rest on it."""
    bench = Bench(Model.from_urdf(panda_arm_urdf()))
    bench.run(1.0)
    detector = Detector()
    detector.is_active = True
    detector._detector, detector._checks = bench.detector, MagicMock()
    detector.on_failure("timer repeat", "a failure elsewhere")
    assert bench.run(0.01)[-1].valid
    detector.on_failure(SAMPLES, "a failure")
    assert bench.run(0.01)[-1].reason == "settling"
    assert bench.run(1.0)[-1].valid
