"""Stop, latch and retreat of a position-controlled arm on contact."""

from rbd_control.contact_stop.arm_motion import ArmMotion
from rbd_control.contact_stop.contact_stop import ContactStop, StopParameters, StopTimes
from rbd_control.contact_stop.retreat_along_path import (
    Retreat,
    RetreatPoint,
    TravelledPath,
    timed_retreat,
)

__all__ = [
    "ArmMotion",
    "ContactStop",
    "Retreat",
    "RetreatPoint",
    "StopParameters",
    "StopTimes",
    "TravelledPath",
    "timed_retreat",
]
