"""The parameters that decide when an arm is stopped and what counts as standing still."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class StopParameters(Parameters):
    """When the arm is stopped, when it stands still, and how far it retreats.

    Raises:
        ParameterError: for a joint named twice, and for a retreat without ``joints``.
    """

    joints: tuple[str, ...] = parameter(
        (),
        "joints whose standstill is awaited, in the order of the retreat; empty: all joints of "
        "joint_states",
        live=False,
    )
    stop_at: str = parameter(
        "contact",
        "what stops the arm: 'contact', or 'collision' alone (of the detector's events) and a "
        "contact that lasts longer than longest_contact",
        choices=("contact", "collision"),
    )
    longest_contact: float = parameter(
        1.0,
        "longest contact that does not stop the arm when stop_at is 'collision'",
        unit="s",
        above=0.0,
        upper=60.0,
    )
    stop_on_silence: bool = parameter(
        False, "stop the arm when the detector publishes no verdict for silence_timeout"
    )
    silence_timeout: float = parameter(
        0.5,
        "time without a verdict after which the detector is silent; it repeats a verdict at 50 Hz",
        unit="s",
        lower=0.1,
        upper=10.0,
    )
    standstill_speed: float = parameter(
        0.02,
        "speed below which a joint stands still",
        unit="rad/s or m/s",
        above=0.0,
        upper=1.0,
    )
    standstill_time: float = parameter(
        0.1,
        "time for which all joints must stand still before the arm counts as stopped",
        unit="s",
        lower=0.0,
        upper=10.0,
    )
    retreat_distance: float = parameter(
        0.0,
        "length of the way back along the travelled path, in motion of the joint that moves most; "
        "0: no retreat",
        unit="rad or m",
        lower=0.0,
        upper=0.5,
        live=False,
    )
    retreat_time: float = parameter(
        1.0,
        "how far before the stop the travelled path is kept for the retreat",
        unit="s",
        above=0.0,
        upper=10.0,
    )
    retreat_speed: float = parameter(
        0.1,
        "largest speed of any joint during the retreat",
        unit="rad/s or m/s",
        above=0.0,
        upper=1.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.joints)) != len(self.joints):
            raise ParameterError(f"a joint is named twice in joints: {', '.join(self.joints)}")
        if self.retreat_distance and not self.joints:
            raise ParameterError(
                f"retreat_distance is {self.retreat_distance:g} but joints is empty; name the "
                "joints of the retreat's trajectory"
            )
