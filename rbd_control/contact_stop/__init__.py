"""Stop, latch and retreat of a position-controlled arm on contact."""

from rbd_control.contact_stop.contact_stop import ContactStop, StopParameters, StopTimes
from rbd_control.contact_stop.retreat_along_path import (
    Retreat,
    RetreatPoint,
    TravelledPath,
    timed_retreat,
)
from rbd_control.contact_stop.standstill_monitor import StandstillMonitor

__all__ = [
    "StandstillMonitor",
    "ContactStop",
    "Retreat",
    "RetreatPoint",
    "StopParameters",
    "StopTimes",
    "TravelledPath",
    "timed_retreat",
]
