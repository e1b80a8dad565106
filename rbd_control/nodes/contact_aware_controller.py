"""Detector and controller in one process, so that the reaction begins with the detecting sample.

Both nodes have the names, parameters, topics and services that they have in separate processes.
They share one subscription to the joint states. Each sample goes through three steps:

1. The detector judges it and raises the flag; the controller in this process gets it first.
2. The controller computes and publishes the torque, for the newest sample only. The first torque
   after the rise of the flag therefore already belongs to the reaction.
3. The detector publishes its other results, for which it locates a contact; the controller
   publishes tracking error and energies. A located force counts from the next torque on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rbd_control.errors import InputError
from rbd_control.joint_states import JointSample
from rbd_control.nodes.contact_detector import SILENCE, ContactDetectorNode, SampleSource
from rbd_control.nodes.joint_state_input import WATCH_PERIOD
from rbd_control.nodes.messages import Stamp
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.nodes.run import Managed, run_together


class SharedSamples:
    """A sample source without a subscription: samples of another node, and a silence watchdog.

    Args:
        node: the detector.

    Attributes:
        latest: the last sample; None before the first sample.
        is_silent: whether the last sample that was not late is older than :data:`SILENCE`.
    """

    def __init__(self, node: TappingDetector) -> None:
        self._node = node
        self.latest: JointSample | None = None
        self._heard = 0.0
        self._watchdog = node.create_timer(WATCH_PERIOD, self._watch, clock=node.steady)

    @property
    def is_silent(self) -> bool:
        """Whether the last sample that was not late is older than :data:`SILENCE`."""
        return time.monotonic() - self._heard > SILENCE

    def destroy(self) -> None:
        """Stop the watchdog."""
        self._node.destroy_timer(self._watchdog)

    def take(self, sample: JointSample) -> None:
        """Store a sample."""
        self.latest = sample
        if not sample.is_late:
            self._heard = time.monotonic()

    def _watch(self) -> None:
        if self._node.is_active and self.is_silent:
            self._node.fall_silent()


class TappingDetector(ContactDetectorNode):
    """A detector that takes its samples from the controller's subscription."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: SharedSamples | None = None

    def tap(self, sample: JointSample, stamp: Stamp) -> None:
        """Judge a sample of the controller's subscription, if the node is configured.

        The guard of the detector handles exceptions, so that the controller continues.
        """
        if self._shared is not None:
            self.guard.run("joint states", self._tap, self._shared, sample, stamp)

    def _tap(self, shared: SharedSamples, sample: JointSample, stamp: Stamp) -> None:
        shared.take(sample)
        if not self.is_active:
            return
        if sample.after_jump:
            self._on_jump()
        self.judge(sample, stamp)

    def fall_silent(self) -> None:
        """End the verdict."""
        self._on_silence()

    def cleanup(self) -> None:
        """Stop the watchdog and clean up the node."""
        super().cleanup()
        self._shared = None

    def _make_input(self) -> SampleSource:
        self._shared = SharedSamples(self)
        return self._shared


def make_nodes() -> Sequence[Managed]:
    """Return the detector and the controller, connected to each other."""
    detector = TappingDetector()
    controller = PassivityControllerNode(detector_is_here=True)
    # An exception in the controller leads to its safe torque; the detector publishes its verdict.
    guard = controller.guard
    detector.flag.on_verdict = lambda flag: guard.run("contact flag", controller.on_contact, flag)
    detector.output.on_force = lambda link, force: guard.run(
        "contact force", controller.on_force, link, force
    )

    def check() -> None:
        """Raise an error if the joints of both nodes differ, because they share samples."""
        if not (hasattr(detector, "robot") and hasattr(controller, "robot")):
            return
        ours, theirs = detector.robot.model.joint_names, controller.robot.model.joint_names
        if ours != theirs:
            raise InputError(
                f"the detector has the joints {', '.join(ours)}, the controller "
                f"{', '.join(theirs)}; in one process they work with the same ones: give joints in "
                f"section /** of the parameter file"
            )

    detector.check_robot = controller.check_robot = check
    controller.tap, controller.after_torque = detector.tap, detector.report
    return detector, controller


def main(args: Sequence[str] | None = None) -> int:
    """Run the nodes; return the exit code."""
    return run_together(make_nodes, args)


if __name__ == "__main__":
    sys.exit(main())
