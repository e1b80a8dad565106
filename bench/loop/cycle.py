"""``python -m bench.loop.cycle``: time, calls and garbage of a cycle of the nodes in one process.

A cycle is the processing of one joint state. The nodes of ``contact_aware_controller`` (detector
and controller) run in this process. No executor runs and no joint state comes through DDS:
serialized messages go directly to the callback of the subscription. The callback publishes its
messages over DDS.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import tracemalloc
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import numpy as np
import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.publisher import Publisher
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

import rbd_control
from bench.loop.stages import RECEIVE, TOTAL, StageClock, stage_times
from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.errors import RbdControlError
from rbd_control.nodes.contact_aware_controller import InProcessDetector, make_nodes
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.ros.messages import NumberWriter, Template, to_array
from rbd_control.ros.processes import reserved_domain
from rbd_control.ros.transports import without_shared_memory
from rbd_control.simulation import arm7_urdf

CONFIG = Path(__file__).with_name("nodes.yaml")
PERIOD = 0.001
"""Time between the stamps of two joint states [s]."""
AGE = 600.0
"""Age of the first joint state [s]: stamps advance faster than the clock, but stay in the past."""

_AT_ONCE = ("-p", "passivity_controller:discovery_time:=0.0")
_NO_CHECK = ("-p", "contact_detector:start_check_time:=0.0")

FIRST = 11_000
"""Number of joint states before a measurement.

The detector compares model and arm in the first 10 s."""
SETTLING = 1_500
"""Number of joint states between the start of a memory measurement and its first value.

The nodes store the latencies of the last 1000 joint states."""
PUBLICATIONS = 100
"""Number of joint states for which publications are counted."""

_POSTURE = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
_AMPLITUDE, _SPEED = 0.01, np.pi * np.arange(1.0, 1.7, 0.1)
"""Sinusoidal motion about the posture [rad], angular frequency of each joint [rad/s]."""
_NOISE = 1e-6
"""Standard deviation of positions [rad]: readings of a real arm never repeat."""


class ComposedCycle:
    """Detector and controller, configured and active, which get joint states of a moving arm.

    Attributes:
        detector: the node ``contact_detector``.
        controller: the node ``passivity_controller``.
    """

    def __init__(self) -> None:
        detector, controller = make_nodes()
        assert isinstance(detector, InProcessDetector)
        assert isinstance(controller, PassivityControllerNode)
        self.detector, self.controller = detector, controller
        self._messages = _messages(time.time() - AGE)
        for node in (detector, controller):
            self._require(node.trigger_configure(), "configure")
        for _ in range(3):
            self.step()
        for node in (detector, controller):
            self._require(node.trigger_activate(), "activate")
        # Without subscribers the timers publish only the torque.
        detector.look_for_readers()
        controller.look_for_readers()
        controller._look_around()

    def step(self) -> None:
        """Process the next joint state in the callback of the subscription."""
        self.receive(next(self._messages))

    def run(self, count: int) -> None:
        """Process the next ``count`` joint states."""
        for _ in range(count):
            self.step()

    def take(self, count: int) -> list[bytes]:
        """Return the next ``count`` joint states, serialized, for :meth:`receive`."""
        return [next(self._messages) for _ in range(count)]

    def receive(self, message: bytes) -> None:
        """Process a serialized joint state in the callback of the subscription."""
        self.controller._input._receive(message)

    def destroy(self) -> None:
        """Deactivate and destroy the nodes."""
        for node in (self.controller, self.detector):
            node.end()
            node.destroy_node()

    @staticmethod
    def _require(result: TransitionCallbackReturn, what: str) -> None:
        if result != TransitionCallbackReturn.SUCCESS:
            raise RbdControlError(f"a node did not {what}; the reason stands in the log above")


@contextmanager
def composed_cycle(domain: int) -> Iterator[ComposedCycle]:
    """Start ROS in a domain, yield the nodes ready for cycles, and shut ROS down afterwards.

    Raises:
        RbdControlError: if a node cannot be configured or activated.
    """
    given = ["--params-file", str(CONFIG), "-p", "autostart:=false", *_AT_ONCE, *_NO_CHECK]
    try:
        with without_shared_memory():
            rclpy.init(
                args=["--ros-args", *given],
                domain_id=domain,
                signal_handler_options=SignalHandlerOptions.NO,
            )
            cycle = ComposedCycle()
        try:
            yield cycle
        finally:
            cycle.destroy()
    finally:
        rclpy.try_shutdown()


def _messages(begin: float) -> Iterator[bytes]:
    """Yield serialized joint states from the time ``begin`` on [s]."""
    model = Model.from_urdf(arm7_urdf())

    def message(numbers: np.ndarray) -> JointState:
        position, velocity, effort = map(to_array, numbers.reshape(3, -1))
        names = list(model.joint_names)
        return JointState(name=names, position=position, velocity=velocity, effort=effort)

    template = Template(message, 3 * model.nv, has_header=True)
    assert template.is_exact
    random = np.random.default_rng(1)
    start, k = int(begin), 0
    while True:
        k += 1
        phase = _SPEED * (PERIOD * k)
        q = _POSTURE + _AMPLITUDE * np.sin(phase) + _NOISE * random.normal(size=model.nv)
        v = _AMPLITUDE * _SPEED * np.cos(phase)
        tau = inverse_dynamics(model, q, v, -_AMPLITUDE * _SPEED**2 * np.sin(phase))
        seconds, rest = divmod(k, round(1.0 / PERIOD))
        nanosec = round(rest * PERIOD * 1e9)
        yield template.filled(np.concatenate((q, v, tau)), start + seconds, nanosec)


def measure(cycle: ComposedCycle, count: int) -> dict[str, object]:
    """Measure ``count`` cycles after the first :data:`FIRST` joint states.

    Returns:
        ``microseconds``: median time of a cycle; ``collections``: runs of the garbage collector by
        generation; ``bytes``: growth of the memory of Python and numpy in ``count`` cycles;
        ``publications``: messages per joint state; ``calls``: see :func:`python_calls`; ``mode``:
        mode of the controller at the end; ``valid``: whether the detector has the verdict "no
        contact" at the end.
    """
    cycle.run(FIRST)
    gc.collect()
    gc.freeze()
    cycle.run(SETTLING)  # fills the interpreter's lists of free tuples, which a collection empties
    messages, times = cycle.take(count), array("q", [0]) * count
    before = [generation["collections"] for generation in gc.get_stats()]
    for k, message in enumerate(messages):
        begin = time.perf_counter_ns()
        cycle.receive(message)
        times[k] = time.perf_counter_ns() - begin
    after = [generation["collections"] for generation in gc.get_stats()]
    with patch.object(Publisher, "publish", autospec=True) as publish:
        cycle.run(PUBLICATIONS)
    tracemalloc.start()
    cycle.run(SETTLING)
    held = tracemalloc.get_traced_memory()[0]
    cycle.run(count)
    grown = tracemalloc.get_traced_memory()[0] - held
    tracemalloc.stop()
    verdict = cycle.detector.flag.value
    return {
        "microseconds": float(np.median(times)) / 1e3,
        "collections": [b - a for a, b in zip(before, after, strict=True)],
        "bytes": grown,
        "publications": publish.call_count / PUBLICATIONS,
        "calls": python_calls(cycle),
        "mode": cycle.controller.controller.mode,
        "valid": verdict is False,
    }


def python_calls(cycle: ComposedCycle) -> dict[str, int]:
    """Count the calls of this package's Python functions from a joint state to its torque.

    Compiled kernels do not count, nor does what follows the publication of the torque.

    Returns:
        ``detector``: calls from ``InProcessDetector.tap`` to the verdict; ``controller``: all
        others; ``files``: number of files that the called functions are in.
    """
    package = str(Path(rbd_control.__file__).parent)
    calls, files = {"detector": 0, "controller": 0}, set()
    whose = "controller"

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal whose
        code = frame.f_code
        if code is InProcessDetector.tap.__code__:
            whose = "detector" if event == "call" else "controller"
        if event == "call" and code.co_filename.startswith(package):
            calls[whose] += 1
            files.add(code.co_filename)

    def publish(_writer: NumberWriter, _torque: np.ndarray) -> bool:
        sys.setprofile(None)
        return True

    message = cycle.take(1)[0]
    with patch.object(NumberWriter, "publish", publish):
        sys.setprofile(profile)
        cycle.receive(message)
    return calls | {"files": len(files)}


def stage_medians(cycle: ComposedCycle, count: int) -> dict[str, float]:
    """Process ``count`` joint states, and return the median time of each stage [µs] by name.

    Stages outside the callback are left out. The methods that measure stay installed.
    """
    messages, clock = cycle.take(count), StageClock()
    clock.install()
    for message in messages:
        cycle.receive(message)
    outside = (RECEIVE, TOTAL)  # The stamps lie in the past.
    times = stage_times(clock.times)
    return {each.stage: round(each.median, 2) for each in times if each.stage not in outside}


def main(arguments: Sequence[str]) -> None:
    """Measure the cycle and its stages, and print the numbers as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.loop.cycle", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, metavar="N", help="cycles (5000)")
    given = parser.parse_args(arguments)
    with reserved_domain() as domain, composed_cycle(domain) as cycle:
        result = measure(cycle, given.count)
        print(json.dumps(result | {"stages": stage_medians(cycle, given.count)}))


if __name__ == "__main__":
    main(sys.argv[1:])
