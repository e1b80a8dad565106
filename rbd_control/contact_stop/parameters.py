"""Parameters of stop, standstill and retreat."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class StopParameters(Parameters):
    """Conditions of a stop and of standstill, and the length of the retreat.

    Raises:
        ParameterError: for a joint named twice, and for a retreat without ``joints``.
    """

    HEADING = "Stop, standstill and retreat"

    joints: tuple[str, ...] = parameter(
        (),
        "joints whose standstill is awaited, in the order of the retreat; empty: all joints of "
        "joint_states",
        live=False,
        in_description=True,
    )
    stop_at: str = parameter(
        "contact",
        "condition of a stop: 'contact': every contact; 'collision': a contact of level collision, "
        "or one that lasts longer than longest_contact",
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
        expert=True,
    )
    standstill_time: float = parameter(
        0.1,
        "time for which all joints must be at rest before the arm counts as stopped",
        unit="s",
        lower=0.0,
        upper=10.0,
        expert=True,
    )
    retreat_distance: float = parameter(
        0.0,
        "length of the retreat along the travelled path, as motion of the joint that moves most; "
        "0: no retreat",
        unit="rad or m",
        lower=0.0,
        upper=0.5,
        live=False,
    )
    retreat_time: float = parameter(
        1.0,
        "duration of the path that is stored before a stop; a retreat goes back no further",
        unit="s",
        above=0.0,
        upper=10.0,
        expert=True,
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
