"""Parameters that a node is given at start by their former names."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rclpy.parameter import Parameter

from rbd_control.control import ControllerParameters
from rbd_control.errors import ParameterError
from rbd_control.ros.declared_parameters import DeclaredParameters


class Node:
    """Stand-in for a node with parameters; ``warned`` holds its log lines."""

    def __init__(self, **given: Any) -> None:
        self._parameter_overrides = {name: Parameter(name, value=x) for name, x in given.items()}
        self.warned: list[str] = []
        self.declared: dict[str, Any] = {}

    def declare_parameter(self, name: str, default: Any, descriptor: Any) -> Parameter:
        self.declared[name] = self._parameter_overrides.get(name, Parameter(name, value=default))
        return self.declared[name]

    def get_logger(self) -> Node:
        return self

    def warning(self, text: str) -> None:
        self.warned.append(text)

    def add_on_set_parameters_callback(self, callback: Any) -> None: ...

    def add_post_set_parameters_callback(self, callback: Any) -> None: ...


def made(node: Node) -> DeclaredParameters[ControllerParameters]:
    return DeclaredParameters(
        node, ControllerParameters, lambda: False, lambda _: None, lambda _: None
    )


def declared(node: Node) -> ControllerParameters:
    return made(node).current


def test_a_node_says_which_parameters_differ_from_their_defaults() -> None:
    """A file without a section for the node leaves all defaults, which must not stay unsaid."""
    said = made(Node()).summary("/left/controller")
    assert "no parameter differs from its default" in said
    assert "/left/controller or /**" in said
    default = ControllerParameters().timeout
    said = made(Node(timeout=2.0 * default, contact_reaction="float")).summary("/controller")
    assert said == "2 parameters differ from the default; ros2 param dump /controller"
    assert "no parameter differs" in made(Node(timeout=default)).summary("/controller")


def test_a_former_name_sets_the_present_parameter() -> None:
    """The value counts for the present name, and the log says so; no value is ignored."""
    node = Node(speed_factor=2.5, jump_tolerance=0.01)
    parameters = declared(node)
    assert (parameters.implausible_speed, parameters.implausible_jump) == (2.5, 0.01)
    assert node.declared["implausible_speed"].value == 2.5
    assert "speed_factor" not in node.declared
    assert node.warned == [
        "parameter 'speed_factor' is now called 'implausible_speed'; rename it",
        "parameter 'jump_tolerance' is now called 'implausible_jump'; rename it",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"speed_factor": 0.5}, "implausible_speed is 0.5; it must be at least 1.0"),
        ({"speed_factor": "fast"}, "implausible_speed is 'fast'; give a number"),
        ({"speed_factor": 2.0, "implausible_speed": 3.0}, "both are given; keep implausible_speed"),
    ],
)
def test_an_unusable_value_by_a_former_name_ends_the_start(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        declared(Node(**given))
