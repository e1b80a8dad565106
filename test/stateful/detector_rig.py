"""Two contact detectors on one arm: one receives single messages, the other blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.estimation import ContactDetector, ContactEvent, DetectorParameters
from rbd_control.joint_states import JointBlock, JointStateIntake
from stateful.arms import make_arm

Array = NDArray[np.float64]

PERIOD = 0.002
"""Period of the joint states [s]."""

START = 1e5
"""Time at the start [s]: far from zero, which no number of jumps back may reach."""


@dataclass
class Verdicts:
    """Verdicts of a detector, sample by sample."""

    valid: list[bool] = field(default_factory=list)
    contact: list[bool] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)
    residual: list[Array] = field(default_factory=list)
    events: list[tuple[int, ContactEvent]] = field(default_factory=list)
    """Events with the number of their sample."""


class DetectorRig:
    """Moves an arm along a smooth path, and sends its joint states to two detectors.

    Attributes:
        single, blocks: the detectors.
        one_by_one, in_blocks: their verdicts since the last check.
        clean: time since the last wrong message, contact or change of the detector [s].
    """

    def __init__(self, arm: str, parameters: DetectorParameters) -> None:
        self.arm = make_arm(arm)
        self.model = self.arm.model
        self.n = self.model.nv
        self.single = ContactDetector(self.model, parameters)
        self.blocks = ContactDetector(self.model, parameters)
        self._intakes = [
            JointStateIntake(self.model.joint_names, follow_jumps=True) for _ in range(2)
        ]
        self.messages = 0
        self.time = self.receipt = START
        self._phase = 0.0
        self.amplitude = 0.0
        self.push = np.zeros(self.n)
        self._random = np.random.default_rng(0)
        self.clean = 0.0
        self.touched = False
        """Whether a contact may begin: something touched the arm, or seemed to."""
        self.open = self.newest = 0
        """Numbers of the contact that lasts, 0 for none, and of the newest one."""
        self.one_by_one, self.in_blocks = Verdicts(), Verdicts()

    # --- Messages ----------------------------------------------------------------------------

    def states(self, count: int) -> tuple[Array, Array, Array, Array]:
        """Stamps (count,), positions, velocities and efforts (count, n) of the next periods."""
        step = np.arange(1, count + 1) * PERIOD
        stamps, angle = self.time + step, (self._phase + step)[:, None]
        rate = np.linspace(2.0, 3.0, self.n)
        q = self.arm.home + self.amplitude * np.sin(rate * angle)
        v = self.amplitude * rate * np.cos(rate * angle)
        a = -self.amplitude * rate**2 * np.sin(rate * angle)
        tau = inverse_dynamics(self.model, q, v, a) - self.push
        # No sensor repeats itself at rest; a joint without load may publish zeros.
        noise_v, noise_tau = self._random.normal(scale=1e-6, size=(2, *v.shape))
        v, tau = v + noise_v, np.where(tau == 0.0, 0.0, tau + noise_tau)
        self._pass(count)
        self._phase += count * PERIOD
        return stamps, q, v, tau

    def _pass(self, count: int) -> None:
        self.time += count * PERIOD
        self.receipt += count * PERIOD

    def tell(self, stamps: Array, q: Array, v: Array, tau: Array, **changes: Any) -> None:
        """Send messages to both detectors; ``changes`` replace fields of :class:`JointBlock`."""
        names = changes.pop("name", self.model.joint_names)
        receipt = self.receipt - PERIOD * np.arange(len(stamps))[::-1]
        block = JointBlock(stamps, receipt, tuple(names), q, v, tau)._replace(**changes)
        self.messages += len(block.stamp)
        for message in block.messages():
            sample = self._intakes[0].accept(*message)
            if sample is not None:
                if sample.after_jump:
                    self._add_event(self.one_by_one, self.single.reset())
                self._add_one(sample.stamp, sample.q, sample.v, sample.tau)
        for part in self._intakes[1].accept_block(block):
            if part.after_jump:
                self._add_event(self.in_blocks, self.blocks.reset())
            self._add_block(part.stamp, part.q, part.v, part.tau)

    def reset(self, *, clear_tare: bool) -> None:
        """Reset both detectors, and perhaps their tares."""
        self._add_event(self.one_by_one, self.single.reset(clear_tare=clear_tare))
        self._add_event(self.in_blocks, self.blocks.reset(clear_tare=clear_tare))

    # --- Verdicts ----------------------------------------------------------------------------

    def _add_event(self, verdicts: Verdicts, event: ContactEvent | None) -> None:
        if event is not None:
            verdicts.events.append((len(verdicts.valid), event))

    def _add_one(self, stamp: float, q: Array, v: Array | None, tau: Array | None) -> None:
        said, into = self.single.update(stamp, q, v, tau), self.one_by_one
        self._add_event(into, said.event)
        into.valid.append(said.valid)
        into.contact.append(said.contact)
        into.reason.append(said.reason)
        into.residual.append(said.residual)

    def _add_block(self, stamps: Array, q: Array, v: Array | None, tau: Array | None) -> None:
        said, into = self.blocks.update_block(stamps, q, v, tau), self.in_blocks
        first = len(into.valid)
        into.events += [(first + k, event) for k, event in said.events]
        into.valid += said.valid.tolist()
        into.contact += said.contact.tolist()
        into.residual += list(said.residual)

    def counted(self) -> tuple[int, int]:
        """Number of messages that the two intakes have counted, accepted or dropped."""
        remarks = ("stamp replaced", "velocity missing", "effort missing")
        totals = [sum(v for k, v in x.counts.items() if k not in remarks) for x in self._intakes]
        return totals[0], totals[1]

    def change(self, parameters: DetectorParameters, model: Model | None = None) -> None:
        """Go on with other parameters, and perhaps another model."""
        for detector in (self.single, self.blocks):
            detector.set_parameters(parameters)
            if model is not None:
                detector.set_model(model)
