"""The arm that ``rbd-control commission`` records and moves, over ROS 2.

Joint states go into a recording as they are received, so that each later step reads what the robot
has sent. While the arm moves, a detector watches it. A contact, no verdict for :data:`BLIND`, joint
states that are silent for :data:`SILENCE`, and Ctrl-C stop the arm: it brakes within
:data:`STOP_TIME` along its present velocity. A program that is killed cannot stop the arm, which
then ends its motion at rest.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rclpy.duration import Duration
from rclpy.executors import Executor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control.waypoints import TrajectoryArrays
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, RecordingError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.files.input_files import about
from rbd_control.joint_states import JointSample, JointStateIntake
from rbd_control.joint_states.cdr import stamp_of
from rbd_control.live.requests import CommandNode
from rbd_control.playback.bag import JOINT_STATE, STRING
from rbd_control.ros.messages import LATCHED, joint_state_reader
from rbd_control.ros.run import make_executor
from rbd_control.startup.prompt_end import stop_requests

Array = NDArray[np.float64]

PATIENCE = 10.0
"""Longest wait for the first joint state, the description and the controller [s]."""
SLOWEST = 20.0
"""Longest time of a simulation per time of its stamps."""
SILENCE = 0.5
"""Time without a joint state after which the arm is stopped [s]."""
STOP_TIME = 0.3
"""Time in which the arm brakes when it is stopped [s]."""
AWAY = 0.05
"""Largest distance of a joint from the first point of a motion at its start [rad or m]."""
CATCH_UP = 1.0
"""Time in which joint states that have waited are read [s]."""
BLIND = 0.5
"""Longest time of a motion in which the detector has no verdict [s]."""
BEFORE = 1.0
"""Time that is recorded before and after a motion [s]."""
TYPE = "trajectory_msgs/msg/JointTrajectory"

_TURN = 0.05
_STORE = get_typestore(Stores.LATEST)


class LiveArm:
    """Records the joint states of an arm, and moves it by its trajectory controller.

    Call ``rclpy.init`` before the construction.

    Args:
        states: topic of the joint states.
        trajectories: topic of the trajectory controller; empty for the only one that has a
            subscriber.

    Attributes:
        description: the received robot description; empty before.
    """

    def __init__(self, states: str, trajectories: str) -> None:
        self._node = CommandNode(f"commission_{os.getpid()}", print)
        self._executor: Executor = make_executor()
        self._executor.add_node(self._node)
        self.description = ""
        self._given = trajectories
        self._reader = joint_state_reader()
        self._writer: Callable[[bytes], None] | None = None
        self._intake: JointStateIntake | None = None
        self._detector: ContactDetector | None = None
        self.sample: JointSample | None = None
        """The last joint state."""
        self._heard = self._judged = self._stamp = -math.inf
        self._why = ""
        node, many = self._node, QoSProfile(depth=2000, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(JointState, states, self._on_state, many, raw=True)
        node.create_subscription(String, "robot_description", self._on_description, LATCHED)
        self._topic = node.resolve_topic_name(states)

    def destroy_node(self) -> None:
        """Destroy the node."""
        self._executor.remove_node(self._node)
        self._node.destroy_node()

    def wait_for_description(self) -> str:
        """Return the description of the arm on the topic ``robot_description``.

        Raises:
            InputError: if none is received within :data:`PATIENCE`.
        """
        if not self._spin_until(lambda: bool(self.description)):
            raise InputError("no robot_description was received; give the file with --urdf")
        return self.description

    def use(self, model: Model, parameters: DetectorParameters) -> None:
        """Wait for a joint state of this robot, and let a detector watch it from now on.

        Args:
            model: the robot.
            parameters: of the detector.

        Raises:
            InputError: if no complete joint state is received within :data:`PATIENCE`.
        """
        self._intake = JointStateIntake(model.joint_names, follow_jumps=True)
        self._detector = ContactDetector(model, parameters)
        if not self._spin_until(lambda: self.sample is not None):
            raise InputError(
                f"no joint state of {', '.join(model.joint_names)} was received on {self._topic} "
                f"within {PATIENCE:g} s: {self._intake.last_reason or 'the topic is silent'}"
            )

    def standing(self) -> dict[str, float]:
        """Return the present position of each joint by name [rad or m]."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=_TURN)
        assert self.sample is not None
        assert self._intake is not None
        return dict(zip(self._intake.joint_names, self.sample.q.tolist(), strict=True))

    def record(self, path: Path, seconds: float) -> None:
        """Record the joint states of an arm that is not moved by this program.

        Args:
            path: folder of the recording, which must not exist.
            seconds: its length [s].

        Raises:
            RecordingError: if joint states cease.
        """
        if not self._spin_until(lambda: math.isfinite(self._heard)):
            raise InputError(f"no joint state was received on {self._topic}: see the driver")
        with self._recording(path):
            self._watch(seconds)

    def play(self, path: Path, points: TrajectoryArrays) -> str:
        """Move the arm along a motion that begins where it stands, and record it.

        Args:
            path: folder of the recording, which must not exist.
            points: the motion, which ends at rest.

        Returns:
            Why the arm was stopped; empty if it has ended the motion.

        Raises:
            InputError: if the arm is elsewhere, or no controller listens.
            RecordingError: if joint states cease; the arm is stopped.
        """
        if self._detector is None or self.sample is None:
            raise InputError("call use before play")
        model = self._detector.model
        away = np.abs(self.sample.q - points.positions[0])
        i, names = int(np.argmax(away)), model.joint_names
        if away[i] > AWAY:
            raise InputError(
                f"{names[i]} is {away[i]:.3f} rad away from the start of the motion; "
                f"move the arm there, or design the motion anew from here"
            )
        publisher = self._node.create_publisher(JointTrajectory, self._controller(), 10)
        try:
            if not self._spin_until(lambda: publisher.get_subscription_count() > 0):
                raise InputError(f"no controller listens on {publisher.topic_name}")
            with self._recording(path), stop_requests() as stopped:
                self._watch(BEFORE)
                self._why, self._judged = "", time.monotonic()
                begin = time.monotonic()
                publisher.publish(trajectory(names, points))
                try:
                    self._watch(
                        float(points.times[-1]) + BEFORE, lambda: bool(self._why) or stopped()
                    )
                finally:
                    if self._why or stopped() or self._is_silent():
                        publisher.publish(trajectory(names, self._stop(points, begin)))
                        self._executor.spin_until_future_complete(Future(), timeout_sec=STOP_TIME)
                return self._why or ("stopped by hand" if stopped() else "")
        finally:
            self._node.destroy_publisher(publisher)

    def _controller(self) -> str:
        """Return the topic of the trajectory controller."""
        if self._given:
            return self._given

        def listening() -> list[str]:
            known = self._node.get_topic_names_and_types()
            names = [name for name, kinds in known if TYPE in kinds]
            return [name for name in names if self._node.count_subscribers(name)]

        self._spin_until(lambda: bool(listening()))
        found = listening()
        if len(found) != 1:
            what = f"{len(found)} topics ({', '.join(found)})" if found else "no topic"
            raise InputError(f"{what} of {TYPE} with a subscriber; name one with --trajectories")
        return found[0]

    def _stop(self, points: TrajectoryArrays, begin: float) -> TrajectoryArrays:
        """Return the trajectory of one point, at which the arm rests when it brakes now.

        Where joint states are silent, the arm is where the motion is: it would jump back to the
        last known position.

        Args:
            points: the motion.
            begin: its beginning on the steady clock [s].
        """
        assert self.sample is not None
        assert self._detector is not None
        model, v = self._detector.model, self.sample.v
        if v is None:
            v = np.zeros(model.nv)
        q = self.sample.q + 0.5 * STOP_TIME * v
        if self._is_silent():
            t = time.monotonic() - begin + 0.5 * STOP_TIME
            q = np.array([np.interp(t, points.times, column) for column in points.positions.T])
        q = np.clip(q, model.lower_limit, model.upper_limit)
        rest = np.zeros((1, v.size))
        return TrajectoryArrays(q[None], np.array([STOP_TIME]), rest, rest)

    def _is_silent(self) -> bool:
        return time.monotonic() - self._heard > SILENCE

    def _watch(self, seconds: float, ends: Callable[[], bool] = lambda: False) -> None:
        """Receive joint states for ``seconds`` by their stamps [s], or until ``ends`` is true.

        Raises:
            RecordingError: if they cease.
        """
        end, latest = self._stamp + seconds, time.monotonic() + SLOWEST * seconds + PATIENCE
        while self._stamp < end and not ends():
            if time.monotonic() > latest:
                raise RecordingError(f"the stamps of {self._topic} hardly advance: see the driver")
            self._executor.spin_until_future_complete(Future(), timeout_sec=_TURN)
            if self._is_silent():
                raise RecordingError(f"{self._topic} is silent for {SILENCE:g} s: see the driver")

    def _spin_until(self, is_met: Callable[[], bool]) -> bool:
        end = time.monotonic() + PATIENCE
        while not is_met() and time.monotonic() < end:
            self._executor.spin_until_future_complete(Future(), timeout_sec=_TURN)
        return is_met()

    @contextmanager
    def _recording(self, path: Path) -> Iterator[None]:
        """Write all joint states that are received in the context, and the description.

        Those that have waited in the queue since the last step are read before.
        """
        self._executor.spin_until_future_complete(Future(), timeout_sec=CATCH_UP)
        self._heard = time.monotonic()
        with (
            about(path),
            Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer,
        ):
            states = writer.add_connection(self._topic, JOINT_STATE, typestore=_STORE)
            if self.description:
                topic = self._node.resolve_topic_name("robot_description")
                described = writer.add_connection(topic, STRING, typestore=_STORE)
                text = _STORE.types[STRING](data=self.description)
                writer.write(described, time.time_ns(), _STORE.serialize_cdr(text, STRING))
            self._writer = lambda raw: writer.write(states, time.time_ns(), raw)
            try:
                yield
            finally:
                self._writer = None

    def _on_description(self, message: String) -> None:
        self.description = message.data

    def _on_state(self, raw: bytes) -> None:
        sec, nanosec = stamp_of(raw)
        self._stamp = sec + 1e-9 * nanosec or time.time()
        if self._writer is not None:
            self._writer(raw)
        if self._intake is None or self._detector is None:
            self._heard = time.monotonic()
            return
        sample = self._intake.accept(*self._reader.read(raw, time.time()))
        if sample is None:
            return
        self.sample, self._heard = sample, time.monotonic()
        if sample.after_jump:
            self._detector.reset()
        verdict = self._detector.judge(sample.stamp, sample.q, sample.v, sample.tau)
        if verdict.valid:
            self._judged = self._heard
        if self._why:
            return
        if verdict.contact:
            self._why = self._contact()
        elif self._heard - self._judged > BLIND:
            self._why = f"the detector has no verdict: {self._detector.complete().reason}"

    def _contact(self) -> str:
        """Return the text about the contact that the detector reports."""
        assert self._detector is not None
        found, model = self._detector.complete(), self._detector.model
        threshold = self._detector.contact_threshold
        ratio = np.abs(found.residual) / threshold
        i = int(np.argmax(ratio))
        return (
            f"contact: {model.joint_names[i]} feels {found.residual[i]:+.1f} "
            f"{model.torque_unit(i)}, its threshold is {threshold[i]:.1f}"
        )


def trajectory(joints: Sequence[str], points: TrajectoryArrays) -> JointTrajectory:
    """Return points as a message that begins when it is received."""
    message = JointTrajectory(joint_names=list(joints))
    for k, t in enumerate(points.times):
        message.points.append(
            JointTrajectoryPoint(
                positions=points.positions[k].tolist(),
                velocities=points.velocities[k].tolist(),
                accelerations=points.accelerations[k].tolist(),
                time_from_start=Duration(seconds=float(t)).to_msg(),
            )
        )
    return message
