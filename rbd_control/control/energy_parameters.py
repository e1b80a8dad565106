"""What can be set about energy: described once for node, config file and law."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class EnergyParameters(Parameters):
    """Parameters of the energy monitor and the energy tank.

    See :class:`~rbd_control.control.EnergyMonitor` and :class:`~rbd_control.control.EnergyTank`.
    """

    passivity_margin: float = parameter(
        0.1,
        "share of the dissipation by K_D that must be left after what the loop injects (delay, "
        "saturation), or the loop is reported as not passive",
        lower=0.0,
        upper=1.0,
    )
    passivity_tolerance: float = parameter(
        0.5, "power that the loop may inject unreported", unit="W", lower=0.0, upper=1e4
    )
    passivity_window: float = parameter(
        0.1,
        "time constant over which powers are averaged for that",
        unit="s",
        above=0.0,
        upper=60.0,
    )
    tank_capacity: float = parameter(
        0.0,
        "energy that the controller may put into the arm before it must have taken some out; 0 "
        "for no such bound",
        unit="J",
        lower=0.0,
        upper=1e6,
    )
    tank_refill: float = parameter(
        1.0,
        "power that flows into the tank by itself, for losses that no friction model covers",
        unit="W",
        lower=0.0,
        upper=1e5,
    )
    tank_valve: float = parameter(
        0.2,
        "level, as a share of the capacity, below which the active torque fades with the level",
        above=0.0,
        upper=1.0,
    )
