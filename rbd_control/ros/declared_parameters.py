"""A parameter object declared on a node, read at start-up and validated as a whole on changes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import ParameterDescriptor, ParameterType, SetParametersResult
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.node import Node
from rclpy.parameter import Parameter

from rbd_control.errors import ParameterError
from rbd_control.parameters import Parameters, alternatives
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.ros.callback_errors import shortened
from rbd_control.wording import quoted

P = TypeVar("P", bound=Parameters)

# Beginnings of the names of rclpy's own parameters.
_OF_ROS = ("use_sim_time", "start_type_description_service", "qos_overrides.")

_OF_THE_ARM = tuple(item.name for item in fields(RobotParameters))
"""Parameters that a file gives to all nodes; nodes without an arm ignore them."""


class DeclaredParameters(Generic[P]):
    """Declares the fields of a parameter class on a node and stores the resulting object.

    Args:
        node: the node.
        kind: the parameter class.
        is_fixed: returns whether parameters declared with ``live=False`` must not change now.
        check: called with the new object before a change; an exception refuses the change, and its
            text is the reason. Not called for the values given at start-up.
        changed: called with the new object after an accepted change.

    Attributes:
        current: the current parameter object.

    Raises:
        ParameterError: if a value given at start-up is unusable, or belongs to a removed
            parameter, or if a parameter is given by both its former and its present name.
    """

    def __init__(
        self,
        node: Node,
        kind: type[P],
        is_fixed: Callable[[], bool],
        check: Callable[[P], None],
        changed: Callable[[P], None],
    ) -> None:
        self._kind = kind
        self._fields = {item.name: item for item in fields(kind)}
        self._is_fixed, self._check, self._changed = is_fixed, check, changed
        _refuse_removed(node, kind)
        former = self._take_former_names(node)
        values = {name: self._declare(node, name, former) for name in self._fields}
        self.current: P = kind.from_mapping(values)
        self._warn_of_unknown(node)
        node.add_on_set_parameters_callback(self._on_set)
        node.add_post_set_parameters_callback(self._after_set)

    def summary(self, node: str) -> str:
        """Return how many parameters differ from their defaults, in one sentence for the log.

        Args:
            node: name of the node with its namespace.
        """
        default = self._kind()
        changed = sum(
            getattr(self.current, name) != getattr(default, name) for name in self._fields
        )
        if changed:
            subject = "1 parameter differs" if changed == 1 else f"{changed} parameters differ"
            return f"{subject} from the default; ros2 param dump {node}"
        return (
            "no parameter differs from its default; a parameter file reaches this node by a "
            f"section named {node} or /**"
        )

    def _take_former_names(self, node: Node) -> dict[str, Any]:
        """Return start-up values given under a former name, by the present name; log a warning.

        Raises:
            ParameterError: if a value is also given under the present name.
        """
        given = getattr(node, "_parameter_overrides", {})
        found: dict[str, Any] = {}
        for old, name in self._kind.former_names().items():
            if old not in given:
                continue
            if name in given:
                raise ParameterError(
                    f"{old} is the former name of {name} and both are given; keep {name}"
                )
            node.get_logger().warning(f"parameter {old!r} is now called {quoted(name)}; rename it")
            found[name] = given[old].value
        return found

    def _declare(self, node: Node, name: str, former: Mapping[str, Any]) -> Any:
        item = self._fields[name]
        default = former.get(name, item.default)
        default = list(default) if isinstance(default, tuple) else default
        # Typed by the object, not by rclpy, which would refuse 10 for a floating-point number.
        descriptor = ParameterDescriptor(
            description=_description(item.metadata),
            additional_constraints=_constraints(item.metadata),
            dynamic_typing=True,
            read_only=item.metadata["start_only"],
        )
        value = node.declare_parameter(name, default, descriptor).value
        return item.default if value is None else value

    def _warn_of_unknown(self, node: Node) -> None:
        # rclpy has no public list of the values given at start and ignores those never declared.
        known = self._fields.keys() | self._kind.former_names().keys() | {*_OF_THE_ARM}
        for name in getattr(node, "_parameter_overrides", {}):
            if name not in known and not name.startswith(_OF_ROS):
                node.get_logger().warning(
                    f"no parameter {quoted(name)}, ignored; {alternatives(name, self._fields)}"
                )

    def _merged(self, changes: Sequence[Parameter]) -> P:
        values = {name: getattr(self.current, name) for name in self._fields}
        for change in changes:
            if change.name in values:
                values[change.name] = change.value
        return self._kind.from_mapping(values)

    def _on_set(self, changes: Sequence[Parameter]) -> SetParametersResult:
        # After an exception the caller would receive no answer.
        try:
            _refuse_deletion(changes)
            if not any(map(self._differs, changes)):
                return SetParametersResult(successful=True)
            new = self._merged(changes)
            fixed = [
                name
                for name, item in self._fields.items()
                if not item.metadata["live"] and getattr(new, name) != getattr(self.current, name)
            ]
            if fixed and self._is_fixed():
                raise ParameterError(f"{fixed[0]} cannot change unless the node is unconfigured")
            self._check(new)
        except Exception as error:
            return SetParametersResult(successful=False, reason=shortened(str(error)))
        return SetParametersResult(successful=True)

    def _differs(self, change: Parameter) -> bool:
        """Return whether a parameter of the object is set to another value than its present one.

        A parameter file that is loaded sets all parameters, most of them to their present values,
        which therefore must not take the time of a change.
        """
        if change.name not in self._fields:
            return False
        value, present = change.value, getattr(self.current, change.name)
        if isinstance(present, tuple) and isinstance(value, (list, tuple, array)):
            value = tuple(value)
        return repr(value) != repr(present)  # not ==, because True equals 1.0

    def taking_together(
        self,
        one_by_one: Callable[[Any, Any], Any],
        at_once: Callable[[Any, Any], Any],
        sends_torque: Callable[[], bool],
    ) -> Callable[[Any, Any], Any]:
        """Return a callback of SetParameters that may apply all changes of a request at once.

        Each change is checked and applied as a whole, which takes some milliseconds, and the
        service SetParameters applies the changes of a request one after the other. ``ros2 param
        load`` would thus interrupt the torque of a controller in this process.

        Args:
            one_by_one: callback of the service SetParameters, for a request and a response.
            at_once: callback of the service SetParametersAtomically.
            sends_torque: returns whether a node of this process sends torque.

        Returns:
            A callback that calls ``one_by_one``, unless a node sends torque and the request changes
            more than one parameter: then it calls ``at_once``, and all parameters of the request
            have the same result. All types in the request must be known.
        """

        def answer(request: Any, response: Any) -> Any:
            if not sends_torque():
                return one_by_one(request, response)
            given = [Parameter.from_parameter_msg(item) for item in request.parameters]
            if sum(map(self._differs, given)) <= 1:
                return one_by_one(request, response)
            together = SetParametersAtomically.Request(parameters=request.parameters)
            result = at_once(together, SetParametersAtomically.Response()).result
            response.results = [result] * len(given)
            return response

        return answer

    def _after_set(self, changes: Sequence[Parameter]) -> None:
        if not any(map(self._differs, changes)):
            return
        new = self._merged(changes)
        if new != self.current:
            self.current = new
            self._changed(new)


def _refuse_removed(node: Node, kind: type[Parameters]) -> None:
    """Raise a :class:`ParameterError` for a start-up value of a removed parameter."""
    removed = kind.removed_names()
    for name in getattr(node, "_parameter_overrides", {}):
        if name in removed:
            raise ParameterError(f"no parameter {quoted(name)}; {removed[name]}")


def _refuse_deletion(changes: Sequence[Parameter]) -> None:
    """Raise a :class:`ParameterError` if a change would delete a parameter.

    rclpy deletes a parameter that is set to "not set". The value would silently return to the
    default, and it could not be set again.
    """
    for change in changes:
        if change.type_ == Parameter.Type.NOT_SET:
            raise ParameterError(f"{change.name} cannot be deleted; set it to another value")


def refusing_unknown_types(callback: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a service callback that refuses parameters of an unknown type.

    rclpy raises an exception for an unknown type, possibly after it has set preceding parameters.

    Args:
        callback: callback of the service SetParameters or SetParametersAtomically, for a request
            and a response.

    Returns:
        A callback that calls ``callback`` if all types are known. Otherwise it sets nothing, and
        its response names the first parameter of an unknown type.
    """

    def answer(request: Any, response: Any) -> Any:
        known = range(ParameterType.PARAMETER_STRING_ARRAY + 1)
        unknown = [item for item in request.parameters if item.value.type not in known]
        if not unknown:
            return callback(request, response)
        first = unknown[0]
        refusal = SetParametersResult(
            successful=False,
            reason=f"{quoted(first.name)} has the unknown type {first.value.type}; nothing was set",
        )
        if hasattr(response, "results"):
            response.results = [refusal] * len(request.parameters)
        else:
            response.result = refusal
        return response

    return answer


def _description(meta: Any) -> str:
    return f"{meta['description']} [{meta['unit']}]" if meta["unit"] else str(meta["description"])


def _constraints(meta: Any) -> str:
    parts = []
    if meta["choices"]:
        parts.append(f"one of {', '.join(meta['choices'])}")
    if meta["above"] > -math.inf:
        parts.append(f"above {meta['above']:g}")
    if meta["lower"] > -math.inf:
        parts.append(f"at least {meta['lower']:g}")
    if meta["upper"] < math.inf:
        parts.append(f"at most {meta['upper']:g}")
    if meta["per_joint"]:
        parts.append("one value for all joints or one for each")
    if meta["start_only"]:
        parts.append("fixed when the process starts")
    elif not meta["live"]:
        parts.append("fixed while the node is configured")
    return "; ".join(parts)
