"""The state machine that sends a contact detector everything, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from numpy.typing import NDArray

from rbd_control.errors import InputError, ParameterError
from rbd_control.estimation import DetectorParameters
from stateful.arms import JOINTS
from stateful.detector_promises import check
from stateful.detector_rig import PERIOD, DetectorRig, Verdicts
from stateful.drawing import each, numbers
from stateful.promises import BrokenPromise

Array = NDArray[np.float64]
Message = tuple[Array, Array, Array, Array]

COUNTS = st.sampled_from([1, 2, 20, 100])

PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "observer": st.sampled_from(["momentum", "second_order", "kalman"]),
    "observer_gain": each(20.0, 100.0),
    "observer_damping": numbers(0.3, 1.0),
    "contact_threshold": each(3.0, 10.0),
    "collision_threshold": each(12.0, 40.0),
    "threshold_speed": each(0.0, 5.0),
    "inertia_error": each(0.0, 0.2),
    "effort_gain_error": each(0.0, 0.1),
    "delay_error": numbers(0.0, 0.005),
    "covered_error": each(0.0, 5.0),
    "calibrated_rate": st.sampled_from([0.0, 200.0, 1000.0, 4000.0]),
    "moving_ratio": each(0.7, 1.0),
    "reversal_speed": each(0.0, 0.1),
    "release_ratio": numbers(0.3, 1.0),
    "onset_debounce": numbers(0.0, 0.02),
    "release_debounce": numbers(0.0, 0.2),
    "settling_time": numbers(0.05, 0.3),
    "maximum_gap": numbers(0.02, 0.3),
    "repeated_time": numbers(0.05, 0.5),
    "saturation_ratio": numbers(1.0, 3.0),
    "implausible_speed": numbers(3.0, 10.0),
    "implausible_effort": numbers(1.5, 5.0),
    "force_uncertainty": numbers(5.0, 50.0),
    "contact_force_threshold": st.sampled_from([0.0, 0.0, 60.0]),
}
"""Strategies for parameters that change at run time; the others describe the constant arm."""


def _spoil(field: str, value: float) -> Callable[[DetectorRig, Message], dict[str, Any]]:
    """One number of a message becomes another."""
    place = {"position": 1, "velocity": 2, "effort": 3}[field]

    def change(rig: DetectorRig, message: Message) -> dict[str, Any]:
        values = message[place].copy()
        values[:, -1] = value
        return {field: values}

    return change


def _shifted(distance: float) -> Callable[[DetectorRig, Message], dict[str, Any]]:
    return lambda rig, message: {"position": message[1] + distance}


NONE = np.zeros((1, 0))

HARMLESS: dict[str, Callable[[DetectorRig, Message], dict[str, Any]]] = {
    "no position": lambda rig, m: {"position": NONE},
    "position not a number": _spoil("position", np.nan),
    "infinite position": _spoil("position", np.inf),
    "wrong length": lambda rig, m: {"velocity": m[2][:, :1].repeat(rig.n + 1, axis=1)},
    "a name twice": lambda rig, m: {"name": (rig.model.joint_names[0],) * rig.n},
    "another arm": lambda rig, m: {"name": tuple(f"other{i}" for i in range(rig.n))},
    "old stamp": lambda rig, m: {"stamp": m[0] - 0.5},
    "same stamp": lambda rig, m: {"stamp": m[0] - PERIOD},
    "negative stamp": lambda rig, m: {"stamp": -m[0]},
    "absurd effort": _spoil("effort", 1e30),
    "huge effort": _spoil("effort", 1e300),
    "impossible effort": _spoil("effort", -800.0),
    "absurd velocity": _spoil("velocity", 1e20),
    "absurd position": _spoil("position", 1e12),
    "a jump": _shifted(2.5),
    "no velocity": lambda rig, m: {"velocity": NONE},
    "no effort": lambda rig, m: {"effort": NONE},
    "velocity not a number": _spoil("velocity", np.nan),
    "effort not a number": _spoil("effort", np.nan),
}
"""Faults of a single message that do not affect the verdict on the next messages."""

HARMFUL: dict[str, Callable[[DetectorRig, Message], dict[str, Any]]] = {
    "a replaced stamp": lambda rig, m: {"stamp": np.zeros(1)},
}
"""Faults that end the verdict."""


class DetectorMachine(RuleBasedStateMachine):
    """Drives two detectors with the same input; every rule ends with a check of all promises."""

    ignored: ClassVar[frozenset[str]] = frozenset()
    examples: ClassVar[int] = 0
    samples: ClassVar[int] = 0

    @initialize(arm=st.sampled_from(sorted(JOINTS)), amplitude=st.sampled_from([0.0, 0.2]))
    def begin(self, arm: str, amplitude: float) -> None:
        """A detector that settles on clean data."""
        type(self).examples += 1
        parameters = DetectorParameters(contact_threshold=(5.0,), collision_threshold=(20.0,))
        self.rig = DetectorRig(arm, parameters)
        self.rig.amplitude = amplitude
        self.clean(150)

    def _look(self) -> None:
        rig = self.rig
        type(self).samples += len(rig.one_by_one.valid)
        check(rig, self.ignored)
        rig.one_by_one, rig.in_blocks = Verdicts(), Verdicts()

    def _keep(self, name: str, kept: bool, details: str = "") -> None:
        if not kept and name not in self.ignored:
            raise BrokenPromise(name, "", details)

    # --- Clean data and contacts -------------------------------------------------------------

    @rule(count=COUNTS)
    def clean(self, count: int) -> None:
        """Send correct joint states."""
        rig = self.rig
        rig.tell(*rig.states(count))
        rig.clean += count * PERIOD
        if rig.clean > 1.0:
            rig.touched = False
        self._look()

    @rule()
    def long_clean(self) -> None:
        """Send correct joint states until there must be a verdict."""
        for _ in range(8):
            self.clean(100)

    @rule(joint=st.integers(0, 3), factor=st.sampled_from([-2.5, -1.5, 1.5, 2.5]))
    def touch(self, joint: int, factor: float) -> None:
        """Something pushes a joint for 0.2 s; a detector with a verdict must find it."""
        rig = self.rig
        sure = rig.clean > 1.5
        rig.clean, rig.touched = 0.0, True
        rig.push = np.zeros(rig.n)
        rig.push[joint % rig.n] = factor * rig.single.contact_threshold[joint % rig.n]
        p = rig.single.parameters
        plain = p.observer == "momentum" and not rig.amplitude
        rig.tell(*rig.states(100))
        rig.push = np.zeros(rig.n)
        found = any(rig.one_by_one.contact) or "saturated" in "".join(rig.one_by_one.reason)
        self._look()
        self._keep("a_push_is_found", found or not (sure and plain), f"{factor} of the threshold")

    # --- Messages with something wrong -------------------------------------------------------

    @rule(kind=st.sampled_from(sorted(HARMLESS)))
    def harmless(self, kind: str) -> None:
        """One message that cannot be used."""
        self._send_spoilt(HARMLESS[kind])

    @rule(kind=st.sampled_from(sorted(HARMLESS)), count=st.integers(2, 30))
    def many(self, kind: str, count: int) -> None:
        """Many messages that cannot be used; an arm may really be where it has jumped to."""
        for _ in range(count):
            self._send_spoilt(HARMLESS[kind])
        self.rig.touched |= kind in ("impossible effort", "a jump", "same stamp")

    @rule(kind=st.sampled_from(sorted(HARMFUL)))
    def harmful(self, kind: str) -> None:
        """One message that takes the verdict away."""
        self._send_spoilt(HARMFUL[kind])

    def _send_spoilt(self, spoil: Callable[[DetectorRig, Message], dict[str, Any]]) -> None:
        rig = self.rig
        message = rig.states(1)
        rig.tell(*message, **spoil(rig, message))
        rig.clean = 0.0
        self._look()

    @rule(turns=st.sampled_from([-1.0, 1.0]), count=COUNTS)
    def wrap(self, turns: float, count: int) -> None:
        """The encoders of continuous joints have wrapped: no jump at all."""
        rig = self.rig
        stamps, q, v, tau = rig.states(count)
        rig.tell(stamps, q + np.where(rig.arm.continuous, 2.0 * np.pi * turns, 0.0), v, tau)
        rig.clean += count * PERIOD
        self._look()

    @rule(count=COUNTS)
    def reorder(self, count: int) -> None:
        """Send messages with the joints in another order and with joints of a gripper."""
        rig = self.rig
        stamps, *values = rig.states(count)
        names = (*reversed(rig.model.joint_names), "finger")
        zero = np.zeros((count, 1))
        rig.tell(stamps, *(np.hstack((x[:, ::-1], zero)) for x in values), name=names)
        rig.clean += count * PERIOD
        self._look()

    @rule(count=COUNTS)
    def freeze(self, count: int) -> None:
        """The driver repeats its last message with stamps that go on."""
        rig = self.rig
        stamps, q, v, tau = rig.states(count)
        frozen = (x[:1].repeat(count, axis=0) for x in (q, v, tau))
        rig.tell(stamps, *frozen)
        rig.clean = 0.0
        rig.touched |= count > 2 and rig.amplitude > 0.0  # torque and motion do not fit any more
        self._look()

    @rule(seconds=st.sampled_from([0.01, 0.15, 5.0]))
    def silence(self, seconds: float) -> None:
        """Send no messages for some time."""
        self.rig._pass(round(seconds / PERIOD))
        self.rig.clean = 0.0

    @rule(seconds=st.sampled_from([-50.0, -0.05, -0.015, -0.003, 50.0]))
    def jump_in_time(self, seconds: float) -> None:
        """The clock of the sender jumps, or that of both."""
        self.rig.time += seconds
        self.rig.receipt += seconds
        self.rig.clean = 0.0

    # --- Orders ------------------------------------------------------------------------------

    @rule(clear=st.booleans())
    def reset(self, clear: bool) -> None:
        """Reset the detectors, as the node does after a jump of the clock or on request."""
        before = self.rig.single.bias
        self.rig.reset(clear_tare=clear)
        after = self.rig.single.bias
        self._keep("only_a_request_clears_the_tare", not np.any(after - (0.0 if clear else before)))
        self.rig.clean = 0.0
        self._look()

    @rule()
    def tare(self) -> None:
        """Tare the detectors; without a verdict both must refuse."""
        rig = self.rig
        answers = []
        for detector in (rig.single, rig.blocks):
            try:
                answers.append(detector.tare().tolist())
            except InputError as error:
                answers.append(str(error))
        self._keep("blocks_and_samples_agree", answers[0] == answers[1], str(answers))
        rig.touched = True  # what was taken off may have been a push
        rig.clean = 0.0 if rig.clean < 2.0 else rig.clean

    @rule(
        names=st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=1, max_size=3), data=st.data()
    )
    def tune(self, names: list[str], data: st.DataObject) -> None:
        """Set parameters."""
        new = {name: data.draw(PARAMETERS[name], name) for name in dict.fromkeys(names)}
        try:
            self.rig.change(replace(self.rig.single.parameters, **new))
        except ParameterError:
            return
        self.rig.clean = 0.0

    @rule(mass=st.sampled_from([0.0, 0.1]))
    def load(self, mass: float) -> None:
        """Set a payload that is light enough not to exceed a threshold."""
        rig = self.rig
        model = rig.model
        if mass:
            model = model.with_payload(model.joint_links[-1], mass, (0.1, 0, 0), np.zeros((3, 3)))
        rig.change(rig.single.parameters, model)
        rig.clean = 0.0
