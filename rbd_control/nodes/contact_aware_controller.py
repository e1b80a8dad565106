"""Detector and controller in one process, so that the reaction begins with the detecting sample.

Both nodes have the names, parameters, topics and services that they have in separate processes.
They share one subscription to the joint states. Each sample goes through three steps:

1. The detector decides whether there is contact. It passes the contact flag to the controller, and
   then publishes the flag.
2. The controller computes and publishes the torque, for the newest sample only. The first torque
   after the rise of the flag therefore already belongs to the reaction.
3. The detector estimates link and force of a contact, and publishes its other results; the
   controller publishes tracking error and energies. An estimated force counts from the next torque
   on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess

from rbd_control.errors import InputError
from rbd_control.joint_states import JointSample
from rbd_control.nodes.contact_detector import SILENCE, ContactDetectorNode, SampleSource
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.ros.joint_state_input import SAMPLES, WATCH_PERIOD
from rbd_control.ros.messages import Stamp
from rbd_control.ros.run import Managed, run_together

PATIENCE = 120.0
"""Longest wait for another process that compiles the code of the controller [s]."""


class SharedSamples:
    """Sample source of a detector whose samples come from another node in the same process.

    It has no subscription: :meth:`take` receives each sample. While the detector is active and
    :attr:`is_silent` is true, a watchdog calls :meth:`InProcessDetector.fall_silent` every
    :data:`WATCH_PERIOD`.

    Args:
        node: the detector.

    Attributes:
        latest: the last sample; None before the first sample.
        is_silent: whether more than :data:`SILENCE` has passed since the last sample that was not
            late; true before the first sample.
    """

    def __init__(self, node: InProcessDetector) -> None:
        self._node = node
        self.latest: JointSample | None = None
        self._heard = 0.0
        self._watchdog = node.create_timer(WATCH_PERIOD, self._watch)

    @property
    def is_silent(self) -> bool:
        """Whether more than :data:`SILENCE` has passed since the last sample that was not late.

        A late sample has waited while the process was paused or busy. The value is true before the
        first sample.
        """
        return time.monotonic() - self._heard > SILENCE

    def destroy(self) -> None:
        """Stop the watchdog by destroying its timer."""
        self._node.destroy_timer(self._watchdog)

    def take(self, sample: JointSample) -> None:
        """Store a sample as :attr:`latest`; unless it is late, it restarts the watchdog."""
        self.latest = sample
        if not sample.is_late:
            self._heard = time.monotonic()

    def _watch(self) -> None:
        if self._node.is_active and self.is_silent:
            self._node.fall_silent()


class InProcessDetector(ContactDetectorNode):
    """A detector node without a subscription; the controller in this process calls :meth:`tap`."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: SharedSamples | None = None
        self._beside: BaseProcess | None = None

    def on_compiling(self, kernel: str) -> None:
        """Let another process compile the code of the controller while this one compiles ours."""
        super().on_compiling(kernel)
        if self._beside is None and self.is_configuring:
            from rbd_control.startup.warmup import start_beside, usable_cores  # slow to import

            if usable_cores() > 1:
                with suppress(OSError):  # too little memory: the controller compiles it later
                    self._beside = start_beside("passivity controller")

    def configure(self) -> None:
        """Configure the detector, then wait until the code of the controller is stored.

        If the other process fails or takes longer than :data:`PATIENCE`, the controller compiles
        its code itself.
        """
        super().configure()
        if self._beside is not None:
            self._beside.join(PATIENCE)
            self._beside.kill()

    def tap(self, sample: JointSample, stamp: Stamp) -> None:
        """Decide on contact for a sample of the controller's subscription, and publish the flag.

        While the detector is configured but not active, the sample is only stored; before the
        configuration it is ignored. The :class:`CallbackErrors` of the detector handles exceptions,
        so that the controller continues.

        Args:
            sample: the joint state in the order of the model.
            stamp: its stamp, exact to the nanosecond.
        """
        if self._shared is not None:
            self.errors.run(SAMPLES, self._tap, self._shared, sample, stamp)

    def _tap(self, shared: SharedSamples, sample: JointSample, stamp: Stamp) -> None:
        shared.take(sample)
        if not self.is_active:
            return
        if sample.after_jump:
            # An onset in the sample before, which arrived together with this one, is published
            # before the restart of the detector, which publishes its release.
            self.report()
            self._on_jump()
        self.judge(sample, stamp)

    def repeat(self) -> None:
        """Repeat a valid verdict during a long callback of the controller, which blocks timers."""
        self.errors.run("timer repeat", self._repeat)

    def fall_silent(self) -> None:
        """End the verdict (contact or no contact), because no sample came for :data:`SILENCE`."""
        self._on_silence()

    def cleanup(self) -> None:
        """Stop the watchdog and clean up the node."""
        super().cleanup()
        self._shared = None

    def _make_input(self) -> SampleSource:
        self._shared = SharedSamples(self)
        return self._shared


def make_nodes() -> Sequence[Managed]:
    """Create the detector and the controller, connected to each other.

    The configuration of the second node fails if the joints of the two nodes differ.

    Returns:
        The detector and the controller, in the order in which the executor processes them.

    Raises:
        ParameterError: for an unusable parameter of a node.
    """
    detector = InProcessDetector()
    controller = PassivityControllerNode(detector_is_here=True)
    # Errors of the controller: an exception in it leads to the safe torque, and does not
    # keep the detector from publishing its verdict.
    errors = controller.errors
    detector.flag.on_verdict = lambda flag: errors.run("contact flag", controller.on_contact, flag)
    detector.output.on_force = lambda link, force: errors.run(
        "contact force", controller.on_force, link, force
    )

    def check(other: Managed) -> None:
        """Raise an error if the joints of the nodes differ, because the nodes share samples.

        Nothing is checked while ``other`` is not configured: its robot may be that of an earlier
        configuration.
        """
        if not other.is_configured:
            return
        ours, theirs = detector.robot.model.joint_names, controller.robot.model.joint_names
        if ours != theirs:
            raise InputError(
                f"the detector has the joints {', '.join(ours)}, the controller "
                f"{', '.join(theirs)}; in one process both need the same joints: give joints in "
                f"section /** of the parameter file"
            )

    detector.check_robot = partial(check, controller)
    controller.check_robot = partial(check, detector)
    detector.interrupts = lambda: controller.get_name() if controller.is_active else ""
    # The detector refuses its configuration while the controller is active. Without this condition
    # the controller could start first, and the arm would move without contact detection.
    controller.starts_after = lambda: (
        f"the configuration of {detector.get_name()}"
        if detector.is_starting and not detector.is_configured
        else ""
    )
    controller.tap, controller.after_torque = detector.tap, detector.report
    controller.while_waiting, controller.gripper = detector.repeat, detector.gripper
    return detector, controller


def main(args: Sequence[str] | None = None) -> int:
    """Run both nodes in one process until a signal or a node ends it; return the exit code.

    Args:
        args: arguments of ROS; by default the arguments of the process.
    """
    return run_together(make_nodes, args)


if __name__ == "__main__":
    sys.exit(main())
