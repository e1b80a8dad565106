"""Parameters of energy monitor and energy tank for node, parameter file and Python."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class EnergyParameters(Parameters):
    """Parameters of the energy monitor and the energy tank.

    The monitor reports whether the control loop is passive; the tank bounds the injected energy.
    See :class:`~rbd_control.control.EnergyMonitor` and :class:`~rbd_control.control.EnergyTank`.
    """

    HEADING = "Passivity monitor and energy tank"

    passivity_margin: float = parameter(
        0.1,
        "share of the dissipation by K_D that must remain after subtraction of the energy that the "
        "loop injects (delay, saturation); otherwise the loop is reported as not passive",
        lower=0.0,
        upper=1.0,
        expert=True,
    )
    passivity_tolerance: float = parameter(
        0.5,
        "largest injected power that is not reported",
        unit="W",
        lower=0.0,
        upper=1e4,
        expert=True,
    )
    passivity_window: float = parameter(
        0.1,
        "time constant of the average powers in the passivity check",
        unit="s",
        above=0.0,
        upper=60.0,
        expert=True,
    )
    tank_capacity: float = parameter(
        0.0,
        "capacity of the energy tank: energy that the controller may inject into the arm; 0 for no "
        "bound",
        unit="J",
        lower=0.0,
        upper=1e6,
    )
    tank_refill: float = parameter(
        1.0,
        "constant power that refills the tank, for losses that the friction model does not cover",
        unit="W",
        lower=0.0,
        upper=1e5,
        expert=True,
    )
    tank_valve: float = parameter(
        0.2,
        "level, as a share of the capacity, below which the active torque fades with the level",
        above=0.0,
        upper=1.0,
        expert=True,
    )
