"""The rows of the table; a condition is one line of :data:`ROWS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.conditions import driver
from bench.conditions.driver import Driver
from bench.conditions.setups import HAND, ChangingPlant, Setup
from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters

Change = Callable[[ChangingPlant, float], None]
"""Changes a plant to a share of the whole change, 0 to 1."""

BEGIN = -1.0
"""The change comes after the first seconds of nominal motion (``Plan.before``)."""
RAMP = 600.0
"""Time of a slow change [s]."""


@dataclass(frozen=True)
class Condition:
    """What differs from the nominal arm, as it was calibrated."""

    name: str
    cause: str = ""
    """Regular expression: a warning that contains it names the cause."""
    driver: Driver | None = None
    """What the driver does to the samples."""
    change: Change | None = None
    """What happens to the arm."""
    begin: float = 0.0
    """Time of the change [s]; :data:`BEGIN`: while the detector is running."""
    ramp: float = 0.0
    """Time over which the change grows [s]."""
    file: Callable[[Setup, Model], Model] | None = None
    """The wrong description of the arm."""
    declared: Callable[[DetectorParameters], dict[str, object]] | None = None
    """Wrong parameters of the detector, by name."""
    recalibrated: bool = False
    """Whether the arm was calibrated under this condition."""
    stops: bool = False
    """Whether the motion is interrupted by stops of the controller."""


def friction(factor: float) -> Change:
    """Multiply the friction of all joints."""
    return lambda plant, share: plant.scale_friction(1.0 + share * (factor - 1.0))


def payload(mass: float) -> Change:
    """Attach a payload [kg]."""
    return lambda plant, share: plant.attach(share * mass)


def tilt(degrees: float) -> Change:
    """Tilt the base."""
    return lambda plant, share: plant.tilt(share * degrees)


def elastic(plant: ChangingPlant, share: float) -> None:
    """Leave the noise of the effort to :func:`bench.conditions.driver.motor_side`."""
    plant.torque_noise = 0.0


def with_hand(setup: Setup, model: Model) -> Model:
    """Return the description with a hand that the arm does not carry."""
    return setup.with_payload(model, HAND)


def heavier(setup: Setup, model: Model) -> Model:
    """Return the description with masses that are a quarter larger."""
    arrays = model.arrays
    scaled = arrays._replace(
        mass=1.25 * arrays.mass,
        first_moment=1.25 * arrays.first_moment,
        second_moment=1.25 * arrays.second_moment,
    )
    return replace(model, arrays=scaled)


def torque(parameters: DetectorParameters) -> dict[str, object]:
    """Declare the efforts as torques."""
    return {"effort_kind": "torque", "effort_gain": (1.0,)}


VAGUE = (
    r"model or thresholds do not fit|look for drifting|or a joint sticks|wrong, or contact during"
)
"""Regular expression of warnings that list several causes, and therefore name none."""

_RATE = r"^rate:|\d Hz|calibrated at"
_LATE = r"late by|ms late|later than|delayed by|velocity_delay"
_NOISE = r"nois"
_COARSE = r"coarse|resolution|quanti|multiples of"
_LOSS = r"lost|^gaps:"
_LOAD = r"looks like a payload|the arm carries|the arm does not carry|payload_mass"
_GRAVITY = r"without_gravity|do not include gravity|subtracts gravity"
_FRICTION = r"[Ff]riction (is|has|of)|less friction|more friction"
_TILT = r"tilted|mounting: (?!as described|not determined)"
_CURRENT = r"looks like motor current|another unit|effort_kind: current"
_SWAPPED = r"are swapped|exchanged|swapped effort"
_STAMPS = r"^jitter:|stamps"
_MISSING = r"lacks? effort|effort missing|NaN"

_LATE_TAU = driver.late("tau", 0.006)

ROWS: tuple[Condition, ...] = (
    Condition("nominal"),
    Condition("rate 500 Hz", _RATE, driver.rate(500.0)),
    Condition("rate 200 Hz", _RATE, driver.rate(200.0)),
    Condition("rate 100 Hz", _RATE, driver.rate(100.0)),
    Condition("rate 30 Hz", _RATE, driver.rate(30.0)),
    Condition("effort 1 ms late", _LATE, driver.late("tau", 0.001)),
    Condition("effort 4 ms late", _LATE, driver.late("tau", 0.004)),
    Condition("effort 10 ms late", _LATE, driver.late("tau", 0.010)),
    Condition("velocity 2 ms late", _LATE, driver.late("v", 0.002)),
    Condition("velocity 10 ms late", _LATE, driver.late("v", 0.010)),
    Condition("velocity 25 ms late", _LATE, driver.late("v", 0.025)),
    Condition("noise of effort x 3", _NOISE, driver.noisy(3.0)),
    Condition("effort in steps of 0.1 N·m", _COARSE, driver.coarse_effort(0.1)),
    Condition("effort in steps of 0.5 N·m", _COARSE, driver.coarse_effort(0.5)),
    Condition("position in steps of 1 mrad", _COARSE, driver.coarse_position(0.001)),
    Condition("1 % of messages lost", _LOSS, driver.lossy(0.01)),
    Condition("10 % of messages lost", _LOSS, driver.lossy(0.10)),
    Condition("bursts of 20 to 120 ms lost", _LOSS, driver.bursts(2.0, 0.02, 0.12)),
    Condition("stamps jitter by 0.4 ms", _STAMPS, driver.jitter(0.0004)),
    Condition("stamps jitter by 2 ms", _STAMPS, driver.jitter(0.002)),
    Condition("NaN in 1 % of efforts", _MISSING, driver.nan(0.01)),
    Condition("friction -30 %", _FRICTION, change=friction(0.70), begin=BEGIN),
    Condition("friction -25 %", _FRICTION, change=friction(0.75), begin=BEGIN),
    Condition("friction -10 %", _FRICTION, change=friction(0.90), begin=BEGIN),
    Condition("friction +10 %", _FRICTION, change=friction(1.10), begin=BEGIN),
    Condition("friction +25 %", _FRICTION, change=friction(1.25), begin=BEGIN),
    Condition("friction +30 %", _FRICTION, change=friction(1.30), begin=BEGIN),
    Condition("friction ramp to -30 % in 10 min", _FRICTION, None, friction(0.7), BEGIN, RAMP),
    Condition("friction ramp to +30 % in 10 min", _FRICTION, None, friction(1.3), BEGIN, RAMP),
    Condition("payload 0.5 kg", _LOAD, change=payload(0.5), begin=BEGIN),
    Condition("payload 2 kg", _LOAD, change=payload(2.0), begin=BEGIN),
    Condition("base tilted by 5 deg", _TILT, change=tilt(5.0)),
    Condition("elastic joints", "", driver.motor_side(), elastic, recalibrated=True),
    Condition("URDF without the hand", _LOAD, change=payload(HAND)),
    Condition("URDF with a hand", _LOAD, file=with_hand),
    Condition("calibrated, URDF with a hand", _LOAD, file=with_hand, recalibrated=True),
    Condition("masses + 25 % (another arm)", r"masses|another arm", file=heavier),
    Condition("efforts of two joints swapped", _SWAPPED, driver.swapped()),
    Condition("effort of one joint reversed", r"wrong sign|reversed", driver.reversed_effort()),
    Condition("torque without gravity", _GRAVITY, driver.without_gravity()),
    Condition("amperes as torque", _CURRENT, driver.amperes(), declared=torque),
    Condition("stops, stop_time 0.1 s", "", stops=True),
    Condition("stops, effort 6 ms late", _LATE, _LATE_TAU, recalibrated=True, stops=True),
)
