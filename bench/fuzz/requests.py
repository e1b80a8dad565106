"""Fuzzed requests to services: parameters of all types, lifecycle transitions, other services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue

from bench.fuzz.inputs import Input, request_input, type_of
from bench.fuzz.odd_values import odd_integer, odd_number, odd_text

PARAMETERS = "parameters"
SERVICES = "other services"
LIFECYCLE = "lifecycle transitions"

CHANGE_STATE = "lifecycle_msgs/srv/ChangeState"
SETTERS = ("rcl_interfaces/srv/SetParameters", "rcl_interfaces/srv/SetParametersAtomically")

LEFT_ALONE = frozenset(
    {
        "thread_priority",  # would take the processor from everything else on the machine
        "rate",
        "substeps",  # legal values keep the simulated arm from answering for seconds
        "use_sim_time",  # switched on for the clock only
        "gravity_compensated",  # changes which torque on the wire is within the limits
        "effort_limit",  # replaces the limits of the description, which the monitor knows
    }
)
"""Parameters that are not fuzzed, because legal values of them disturb the fuzzer itself."""

PATHS = frozenset({"estimates", "recording", "urdf"})
"""Parameters that name files: only paths that do not exist are given."""

UNKNOWN_TYPES = (10, 11, 100, 255)
"""Parameter types that ROS does not define."""


@dataclass(frozen=True)
class Interface:
    """Services and parameters of one node.

    Attributes:
        node: full name of the node.
        services: type of each service, by its full name.
        parameters: names of the declared parameters.
    """

    node: str
    services: Mapping[str, str]
    parameters: Sequence[str]


def parameter_burst(random: Random, interface: Interface, count: int) -> list[Input]:
    """Return ``count`` requests that set or delete parameters, with odd names, types and values."""
    setters = [(name, kind) for name, kind in interface.services.items() if kind in SETTERS]
    burst = []
    for _ in range(count):
        channel, kind = random.choice(setters)
        parameters = [
            _parameter(random, interface.parameters) for _ in range(random.choice((1, 1, 1, 2, 5)))
        ]
        if random.random() < 0.1:
            parameters.append(random.choice(parameters))
        request = type_of(kind).Request(parameters=parameters)
        burst.append(request_input(PARAMETERS, channel, kind, request))
    return burst


def _parameter(random: Random, names: Sequence[str]) -> Parameter:
    name = random.choice(names) if random.random() < 0.9 else odd_text(random)[:1000]
    if name in LEFT_ALONE:
        name = "autostart"
    return Parameter(name=name, value=_value(random, name))


def _value(random: Random, name: str) -> ParameterValue:
    if name in PATHS:
        path = f"/nonexistent/{odd_text(random)[:100]}".replace("\0", "")
        return ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=path)
    value = ParameterValue(
        type=random.choice((1, 2, 3, 3, 3, 4, 5, 6, 7, 8, 8, 8, 9, 0)),
        bool_value=random.random() < 0.5,
        integer_value=odd_integer(random),
        double_value=odd_number(random),
        string_value=odd_text(random),
    )
    length = random.choice((0, 1, 1, 7, 7, 8, 49, 1000))
    # Similar numbers in one array as well: a value that is accepted is worth more.
    number = abs(random.gauss(1.0, 1.0)) if random.random() < 0.5 else odd_number(random)
    value.double_array_value = [number] * length
    value.integer_array_value = [odd_integer(random)] * length
    value.bool_array_value = [True] * length
    value.string_array_value = [odd_text(random)[:100]] * min(length, 8)
    value.byte_array_value = [bytes([random.randrange(256)])] * length
    if value.type == ParameterType.PARAMETER_DOUBLE and random.random() < 0.5:
        value.double_value = abs(random.gauss(1.0, 1.0))
    if random.random() < 0.03:
        value.type = random.choice(UNKNOWN_TYPES)
    return value


def service_burst(random: Random, interface: Interface, count: int) -> list[Input]:
    """Return ``count`` requests to services other than parameter and lifecycle services.

    Services of actions are left out: the result of a goal is sent when the goal ends.
    """
    others = [
        (name, kind)
        for name, kind in interface.services.items()
        if kind not in (*SETTERS, CHANGE_STATE) and "/action/" not in kind
    ]
    burst = []
    for _ in range(count):
        channel, kind = random.choice(others)
        request = type_of(kind).Request()
        _fill(random, request, interface.parameters)
        burst.append(request_input(SERVICES, channel, kind, request))
    return burst


def _fill(random: Random, request: Any, names: Sequence[str]) -> None:
    """Put odd values into the fields of a request."""
    for field, kind in request.get_fields_and_field_types().items():
        if kind == "sequence<string>":
            known = [random.choice(names) for _ in range(random.choice((0, 1, 3)))]
            setattr(request, field, [*known, *([odd_text(random)] * random.choice((0, 1, 100)))])
        elif kind == "string":
            setattr(request, field, odd_text(random))
        elif kind in ("double", "float"):
            setattr(request, field, odd_number(random))
        elif kind == "boolean":
            setattr(request, field, random.random() < 0.5)
        elif kind.startswith("uint"):
            setattr(request, field, random.choice((0, 1, 2, 100)))


def lifecycle_burst(random: Random, interface: Interface, count: int) -> list[Input]:
    """Return ``count`` requests for random lifecycle transitions, also undefined transitions."""
    channel = next(name for name, kind in interface.services.items() if kind == CHANGE_STATE)
    burst = []
    for _ in range(count):
        request = type_of(CHANGE_STATE).Request()
        # 1 configure, 2 clean up, 3 activate, 4 deactivate, 5 to 7 shut down.
        weights = (1, 10, 8, 10, 10, 1, 1, 1, 1, 1, 1)
        request.transition.id = random.choices((0, 1, 2, 3, 4, 5, 6, 7, 8, 99, 255), weights, k=1)[
            0
        ]
        if random.random() < 0.2:
            request.transition.label = random.choice(("configure", "activate", odd_text(random)))
        burst.append(request_input(LIFECYCLE, channel, CHANGE_STATE, request))
    return burst
