"""Defects that the controller once had, or could have, as patches of the present code.

Each patch replaces one or two functions. :meth:`Defect.put_back` raises an error if such a function
is missing, if it does not contain the text that the patch was made for, if the patch uses a name
that the present code lacks, or if nothing calls the function. So a defect that could not be put
back counts neither as found nor as missed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from rbd_control.control import kernels, limits, safe_torque
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.limits import ArmLimits, SoftLimits
from rbd_control.control.modes import Modes
from rbd_control.control.safe_torque import SafeTorque
from rbd_control.control.samples import SampleJudge
from rbd_control.control.watches import Watches


@dataclass(frozen=True)
class Change:
    """A function that is replaced.

    Attributes:
        owner: class or module of the function.
        name: name of the function in its owner.
        contains: text that the source of the function must contain; empty for a compiled function.
        new: function that replaces it.
    """

    owner: Any
    name: str
    contains: str
    new: Callable[..., Any]

    def check(self) -> None:
        """Check that the code that this change replaces exists.

        Raises:
            LookupError: if the function is missing, or its source does not have ``contains``.
        """
        old = getattr(self.owner, self.name, None)
        if old is None or (self.contains and self.contains not in inspect.getsource(old)):
            raise LookupError(
                f"{self.owner.__name__}.{self.name} with {self.contains!r} is gone: correct "
                "bench/mutations/defects.py"
            )

    def watched(self, failures: list[str], reached: set[str]) -> Callable[..., Any]:
        """Return the new function, wrapped so that its errors are recorded.

        The controller answers every exception with the safe torque, so an error of the patch would
        not be noticed otherwise.

        Args:
            failures: receives the text of each AttributeError, NameError and TypeError.
            reached: receives the name of the function when it is called.
        """

        def call(*arguments: Any, **named: Any) -> Any:
            reached.add(self.name)
            try:
                return self.new(*arguments, **named)
            except (AttributeError, NameError, TypeError) as error:
                failures.append(f"{self.owner.__name__}.{self.name}: {error}")
                raise

        return call


@dataclass(frozen=True)
class Defect:
    """A defect, and the changes that put it into the controller."""

    number: int
    text: str
    promises: tuple[str, ...]
    """Names of the promises that the defect breaks; the machine must find it by one of them."""
    changes: tuple[Change, ...]

    @contextmanager
    def put_back(self) -> Iterator[Callable[[], bool]]:
        """Let the controller have the defect inside the ``with`` block.

        Yields:
            Function that returns whether every changed function has been called.

        Raises:
            LookupError: if the code that is patched, or used by the patch, is missing.
        """
        failures: list[str] = []
        reached: set[str] = set()
        names = {change.name for change in self.changes}
        with ExitStack() as stack:
            for change in self.changes:
                change.check()
                new = change.watched(failures, reached)
                stack.enter_context(patch.object(change.owner, change.name, new))
            yield lambda: reached == names
        if reached != names and not failures:
            failures.append(f"nothing calls {min(names - reached)}")
        if failures:
            raise LookupError(f"{failures[0]}; correct bench/mutations/defects.py")


def _minus_g(self: Any, *arguments: Any) -> Any:
    step = _SAFE(self, *arguments)
    if self._holds_itself and self._compensated:
        return step._replace(command=step.command + step.brake - step.motors)
    return step


def _with_setting(name: str, value: float) -> Callable[..., None]:
    """Return a change of the checks of joint states: one of their settings is always ``value``."""

    def set_parameters(self: Any, *arguments: Any) -> None:
        _SET(self, *arguments)
        of_joints = name in self._settings.joint.dtype.names
        (self._settings.joint if of_joints else self._settings.arm)[name] = value

    return set_parameters


def _held_already(self: Any, reason: str, again: bool = False, then: Any = None) -> None:
    if self.mode == "hold" and self.state.latched:
        return
    _HOLD(self, reason, again, then)


def _as_described(described: Any, given: Any) -> Any:
    return np.where(np.isfinite(described), described, 0.0)


def _all_or_none(self: Any, packed: Any, q: Any, v: Any, v_f: Any, *arguments: Any) -> Any:
    still = np.zeros_like(v)
    weight = _SAFE(self, packed, q, still, still, *arguments).motors
    if (np.abs(weight) >= self._largest).any():
        v_f = still
    return _SAFE(self, packed, q, v, v_f, *arguments)


def _without_gate(packed: Any, described: Any, q: Any, v: Any, *arguments: Any) -> Any:
    return _STEP(packed, described, q, np.zeros_like(v), *arguments)


def _as_if_on_time(self: Any, period: float) -> float:
    self._rate, self._delay = 200.0, 0.0
    return float(_RATE(self, period))


def _verdicts_last(self: Any, now: float) -> bool:
    return bool(np.isfinite(self._heard))


def _forgive_all(self: Any) -> str:
    self._unusable = 0.0
    return str(_FORGIVE(self))


def _without_swings(self: Any) -> None:
    _RECONFIGURE(self)
    self._settings.joint["torque"] = self._settings.joint["torque_rate"] = np.inf


_RECONFIGURE = Watches.reconfigure
_FORGIVE, _SET = SampleJudge._forgive, SampleJudge.set_parameters
_HOLD, _RATE, _SAFE = Modes.hold, SafeTorque.rate, SafeTorque.torque
_STEP = kernels.safe_step

DEFECTS = (
    Defect(
        1,
        "the safe torque zero of an arm that carries its own weight is -g(q)",
        ("safe_zero_is_zero_at_rest", "safe_brake_takes_energy_out"),
        (Change(SafeTorque, "torque", "holds_itself", _minus_g),),
    ),
    Defect(
        2,
        "positions of continuous joints are not unwrapped",
        (
            "no_fault_without_a_cause",
            "following_is_close",
            "torque_keeps_its_rate",
            "good_joint_states_let_it_start",
            "a_stopped_arm_comes_to_rest",
            "speed_has_a_hard_bound",
        ),
        (Change(SampleJudge, "set_parameters", "turn", _with_setting("turn", 0.0)),),
    ),
    Defect(
        3,
        "joint states that repeat under new stamps are believed",
        ("frozen_motion_is_a_fault",),
        (
            Change(
                SampleJudge,
                "set_parameters",
                "repeated_time",
                _with_setting("repeated_time", np.inf),
            ),
        ),
    ),
    Defect(
        4,
        "hold answers success while the arm retracts, and it goes on",
        (
            "a_stop_ends_within_stop_time",
            "a_stopped_arm_comes_to_rest",
        ),
        (Change(Modes, "hold", "self.stop()", _held_already),),
    ),
    Defect(
        6,
        "an effort limit of zero is taken as it is, and removes all torque",
        ("an_effort_limit_is_needed",),
        (
            Change(ArmLimits, "require_effort", "InputError", lambda self: None),
            Change(limits, "_replaced", "limit > 0.0", _as_described),
        ),
    ),
    Defect(
        7,
        "one joint at its weight limit takes the damping of all joints in mode safe",
        ("safe_brake_brakes_every_joint",),
        (Change(SafeTorque, "torque", "safe_step", _all_or_none),),
    ),
    Defect(
        9,
        "the verdict of a detector that has fallen silent counts for ever",
        ("a_new_contact_is_reacted_to",),
        (Change(DetectorVerdict, "fresh", "VERDICT_TIMEOUT", _verdicts_last),),
    ),
    Defect(
        10,
        "limits opened by a start beyond them stay open when the arm has come back",
        (
            "position_limits_close_behind_the_arm",
            "no_torque_leads_out_of_limits",
        ),
        (Change(SoftLimits, "close_behind", "close_behind", lambda self, q: None),),
    ),
    Defect(
        11,
        "a usable joint state makes up for all unusable ones before it, as with two publishers",
        ("two_publishers_are_a_fault", "a_start_waits_for_one_publisher"),
        (Change(SampleJudge, "_forgive", "FORGIVING", _forgive_all),),
    ),
    Defect(
        12,
        "joint states may be late by any time",
        ("a_growing_delay_is_a_fault",),
        (
            Change(
                SampleJudge, "set_parameters", "delay_growth", _with_setting("delay_growth", 0.0)
            ),
        ),
    ),
    Defect(
        13,
        "the torque of a loop that is not stable swings for ever",
        ("torque_does_not_swing_for_ever",),
        (Change(Watches, "reconfigure", "torque", _without_swings),),
    ),
    Defect(
        14,
        "the brake of mode safe is not zero where it would drive the arm",
        ("safe_brake_takes_energy_out",),
        (Change(safe_torque, "safe_step", "", _without_gate),),
    ),
    Defect(
        15,
        "the brake of mode safe is as stiff as if the loop had no delay",
        ("only_a_late_brake_is_weakened", "energy_falls_in_mode_safe"),
        (Change(SafeTorque, "rate", "self._delay", _as_if_on_time),),
    ),
)
