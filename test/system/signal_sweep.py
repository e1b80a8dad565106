"""Run a controller many times and send it a signal at another line of its code each time.

This is a separate program because signals go to the main thread: ``python -m system.signal_sweep
DOMAIN PHASE STRIDE`` prints one JSON object with the outcomes. PHASE is ``start``, where the only
signal comes at some line after the start of the activation, or ``end``, where a second signal comes
at some line after the first one.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any

import numpy as np
from std_msgs.msg import Float64MultiArray

import rbd_control
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes import passivity_controller
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.ros import transports
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.run import Signals, run
from rbd_control.startup import prompt_end

from .controller_setting import COMMANDS, resting
from .probe import Probe
from .quick_discovery import quick_profile

FOLDER = str(Path(rbd_control.__file__).parent)
WATCHED = {
    f"{FOLDER}/{name}.py"
    for name in (
        "nodes/passivity_controller",
        "nodes/command_output",
        "nodes/trajectory_input",
        "ros/managed_node",
        "ros/run",
        "ros/threads",
    )
}
# Traced, the process may receive joint states so slowly that it bears low gains only.
GIVEN = (
    "urdf:=arm7",
    "discovery_time:=0.0",
    "timeout:=1.0",
    "damping_rate:=2.0",
    "bandwidth:=[1.0]",
)
ARGUMENTS = ["--ros-args", *(word for parameter in GIVEN for word in ("-p", parameter))]
PATIENCE = 60.0


class Tracer:
    """Sends a signal when the main thread comes to the k-th watched line after :meth:`arm`."""

    def __init__(self, line: int) -> None:
        self.line, self.count, self.armed = line, 0, False
        self.place = ""

    def arm(self) -> None:
        self.armed = True

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in WATCHED:
            return None
        if event == "line" and self.armed:
            if self.count == self.line:
                self.place = f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno}"
                os.kill(os.getpid(), signal.SIGTERM)
            self.count += 1
        return self


def once(probe: Probe, phase: str, line: int) -> dict[str, Any]:
    """Run a controller with a signal at ``line``; return the outcome."""
    tracer = Tracer(line)
    # Discovery lists the publisher of the controller before for a while.
    topic = f"line_{line}/commands"
    commands = probe.listen(Float64MultiArray, topic)
    first = len(commands)
    original = ManagedNode._activate, Signals._on_signal

    def activate(node: ManagedNode[NodeParameters]) -> None:
        if phase == "start":
            tracer.arm()
        original[0](node)

    def on_signal(signals: Signals, number: int, frame: FrameType | None) -> None:
        if phase == "end":
            tracer.arm()
        original[1](signals, number, frame)

    def first_signal() -> None:
        """Come when torque flows; in phase start that is the last resort."""
        deadline = time.monotonic() + PATIENCE
        while len(commands) < first + 3 and time.monotonic() < deadline and not tracer.place:
            time.sleep(0.002)
        if not tracer.place:
            os.kill(os.getpid(), signal.SIGTERM)

    sender = Thread(target=first_signal)
    sender.start()
    ManagedNode._activate, Signals._on_signal = activate, on_signal  # type: ignore[method-assign]
    sys.settrace(tracer)
    try:
        code: Any = run(PassivityControllerNode, [*ARGUMENTS, "-r", f"{COMMANDS}:={topic}"])
    except BaseException as error:
        code = repr(error)
    finally:
        sys.settrace(None)
        ManagedNode._activate, Signals._on_signal = original  # type: ignore[method-assign]
    sender.join()
    # What was acknowledged may still wait for the thread of the probe.
    deadline = time.monotonic() + 2.0
    while len(commands) > first and np.any(commands[-1].data) and time.monotonic() < deadline:
        time.sleep(0.005)
    sent = [np.array(message.data) for message in commands[first:]]
    return {
        "line": line,
        "place": tracer.place,
        "code": code,
        "sent": len(sent),
        "ends with zero": not sent or not sent[-1].any(),
        "zeros": sum(not x.any() for x in sent),
    }


def main() -> None:
    # Tracing takes its time, and this process shall survive each controller: one that was never
    # active ends its process without unwinding the interpreter.
    prompt_end.GRACE = PATIENCE
    sys.modules[run.__module__].end_now = lambda code: None  # type: ignore[attr-defined]
    domain, phase, stride = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.environ["ROS_DOMAIN_ID"] = str(domain)
    # Nothing is compiled any more after the first time.
    rehearsed: list[Any] = []
    rehearse = passivity_controller.rehearse_controller
    passivity_controller.rehearse_controller = lambda model: (
        rehearsed or rehearsed.append(rehearse(model))
    )
    transports.udp_profile = quick_profile
    probe = Probe(domain)
    probe.stream(resting())
    outcomes = []
    for k in range(0, 10_000, stride):
        outcome = once(probe, phase, k)
        outcomes.append(outcome)
        if not outcome["place"]:  # the process had ended before that line
            break
    print(json.dumps(outcomes))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
