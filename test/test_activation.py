"""The activation of the controller node: what it reads while it waits, and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.nodes import contact_aware_controller, passivity_controller
from rbd_control.nodes.contact_aware_controller import InProcessDetector
from rbd_control.nodes.passivity_controller import (
    PassivityControllerNode,
    PassivityControllerParameters,
)
from rbd_control.ros.managed_node import NotReadyError


class Output:
    """Takes the place of the torque output."""

    def __init__(self, *_: object) -> None:
        self.is_open = False
        outputs.append(self)

    def open(self, meanwhile: Any) -> None:
        self.is_open = True
        meanwhile()

    def abandon(self) -> None:
        self.is_open = False


outputs: list[Output] = []


class Bench:
    """A configured controller node whose parts the test sets.

    Attributes:
        read: names of the inputs that were read, in order.
        starts: number of starts of the controller.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(passivity_controller, "TorqueOutput", Output)
        outputs.clear()
        self.read: list[str] = []
        self.starts = 0
        sample = SimpleNamespace(stamp=0.0, q=np.zeros(7), v=np.zeros(7), model_error="")
        self.node: Any = PassivityControllerNode.__new__(PassivityControllerNode)
        self.node._source = None
        nothing = SimpleNamespace(start=lambda *_: None, stop=lambda: None)
        self.input = SimpleNamespace(
            latest=sample,
            is_silent=False,
            period=0.001,
            poll=lambda: self.read.append("joint states"),
        )
        self.payload = SimpleNamespace(
            is_pending=False, settle=lambda: None, poll=lambda: self.read.append("payload")
        )
        self.verdict = ""
        self.controller = SimpleNamespace(
            start=self._start,
            clock_went_back=lambda: None,
            watches=SimpleNamespace(detector_warning=lambda _now: ""),
            observed=SimpleNamespace(mixed=False, take=lambda *_: None),
            set_model_error=lambda _error: None,
        )
        self.node.__dict__.update(
            _input=self.input,
            _payload=self.payload,
            _detector=SimpleNamespace(
                poll=lambda: self.read.append("verdicts"), watch=lambda: None, topic="/contact"
            ),
            _detector_warning=lambda: self.verdict,
            _access=SimpleNamespace(
                wait=lambda meanwhile: meanwhile(),
                others=lambda: 0,
                require_alone=lambda: None,
            ),
            _declared=SimpleNamespace(current=PassivityControllerParameters(require_detector=True)),
            _controller=self.controller,
            _trajectories=nothing,
            _watchdog=nothing,
            _report=SimpleNamespace(last=None),
            _output=None,
            while_waiting=lambda: self.read.append("the detector here"),
            robot=SimpleNamespace(order=np.arange(7)),
            stopping=False,
            resolve_topic_name=lambda name: f"/{name}",
        )

    def _start(self, *_: object) -> None:
        self.starts += 1


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_an_activation_reads_all_inputs_while_it_waits(bench: Bench) -> None:
    bench.node.activate()
    assert bench.starts == 1
    once = ["joint states", "the detector here", "verdicts", "payload"]
    assert bench.read == 3 * once  # during both waits, and before the start


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("input", {"period": 1.0 / 30.0}, "damping_rate 12 .* too high for a loop at 30 Hz"),
        ("payload", {"is_pending": True}, "the check of the payload that was announced"),
        ("input", {"is_silent": True}, "waiting for joint states on /joint_states"),
        (
            "controller",
            {"observed": SimpleNamespace(mixed=True, take=lambda *_: None)},
            "on /joint_states they contradict each other",
        ),
    ],
    ids=["gains", "payload", "silence", "two sources"],
)
def test_what_is_missing_after_the_wait_refuses_the_activation(
    bench: Bench, part: str, change: dict[str, Any], reason: str
) -> None:
    """Of two sources the first sample would decide which is taken for the arm's."""
    vars(getattr(bench, part)).update(change)
    with pytest.raises(NotReadyError, match=reason):
        bench.node.activate()
    assert not bench.starts
    assert not any(output.is_open for output in outputs)


def test_a_verdict_that_expires_during_the_wait_refuses_the_activation(bench: Bench) -> None:
    """With autostart the process ended with exit code 1, as after an error."""
    bench.verdict = "no verdict about contact for 0.6 s"
    with pytest.raises(NotReadyError, match="a verdict on /contact: no verdict about contact"):
        bench.node.activate()
    assert not bench.starts


@pytest.mark.parametrize("part", ["_access", "_trajectories", "_watchdog", "_detector"])
def test_an_error_at_the_end_of_the_activation_leaves_no_publisher_of_torque(
    bench: Bench, part: str
) -> None:
    """The publisher remained: each later activation counted it as another controller."""
    stopped: list[str] = []

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    for name in ("_trajectories", "_watchdog"):
        bench.node.__dict__[name] = SimpleNamespace(
            start=lambda *_: None, stop=lambda name=name: stopped.append(name)
        )
    method = {"_access": "require_alone", "_detector": "watch"}.get(part, "start")
    setattr(bench.node.__dict__[part], method, fail)
    with pytest.raises(RuntimeError, match="new thread"):
        bench.node.activate()
    assert bench.node._output is None
    assert [output.is_open for output in outputs] == [False]
    assert sorted(stopped) == ["_trajectories", "_watchdog"]


def test_a_detector_in_the_same_process_repeats_its_verdict_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The activation keeps the executor from the timer that repeats it."""
    detector: Any = InProcessDetector.__new__(InProcessDetector)
    told: list[bool] = []
    detector.__dict__.update(
        errors=SimpleNamespace(run=lambda _name, callback: callback()),
        flag=SimpleNamespace(value=False, publish=told.append),
        output=SimpleNamespace(publish_waiting_events=lambda: None, repeat=lambda: None),
        _judged=np.inf,
        _grasped=SimpleNamespace(gripper=None),
    )
    controller = SimpleNamespace(errors=None, on_contact=None, on_force=None)
    monkeypatch.setattr(contact_aware_controller, "InProcessDetector", lambda: detector)
    monkeypatch.setattr(
        contact_aware_controller, "PassivityControllerNode", lambda **_options: controller
    )
    contact_aware_controller.make_nodes()
    controller.while_waiting()
    assert told == [False]
