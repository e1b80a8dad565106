"""``python -m bench.parameter_pages``: make parameter files and documentation from the fields.

It writes the files of :data:`FILES` in ``config`` and ``docs/parameters.md``. A test compares them
with the fields, so that no value and no text has a second home.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from textwrap import wrap
from typing import Any

from rbd_control.estimation import ContactEvent
from rbd_control.files.yaml_output import yaml_text
from rbd_control.nodes.contact_detector import ContactDetectorParameters
from rbd_control.nodes.contact_guard import ContactGuardParameters
from rbd_control.nodes.demo_scenario import DemoScenarioParameters
from rbd_control.nodes.hand_guide import HandGuideNodeParameters
from rbd_control.nodes.joint_state_player import PlayerParameters
from rbd_control.nodes.passivity_controller import PassivityControllerParameters
from rbd_control.nodes.simulated_arm import SimulatedArmParameters
from rbd_control.parameters import Parameters
from rbd_control.results import key_table
from rbd_control.robot.robot import ARM7
from rbd_control.robot.robot_parameters import RobotParameters

ROOT = Path(__file__).parents[1]
WIDTH = 100
ABOUT = (
    "The values are the defaults. A list for joints holds one value for all, or one for each in "
    "the order of `joints`. Brackets at the end of a text have the permitted values; a parameter "
    "that is fixed does not change while the node is active. Made by bench/parameter_pages.py."
)
"""Last lines of the comment at the head of each file."""


@dataclass(frozen=True)
class File:
    """A parameter file."""

    name: str
    """Name of the file without its ending."""
    section: str
    """Section of the file: a node, or ``/**`` for every node."""
    kind: type[Parameters]
    use: str
    """First lines of the file: what the node does and needs."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values in the file that are not the defaults."""

    def groups(self, part: int) -> dict[str, list[Field[Any]]]:
        """Return the parameters of one part by heading; those of the arm stand in its own file."""
        found: dict[str, list[Field[Any]]] = {}
        for item in fields(self.kind):
            base = _owner(self.kind, item)
            is_elsewhere = issubclass(RobotParameters, base) and self.kind is not RobotParameters
            if part_of(item) == part and (item.name in self.values or not is_elsewhere):
                found.setdefault(base.HEADING, []).append(item)
        return found


FILES = (
    File(
        "arm",
        "/**",
        RobotParameters,
        "The arm, for every node and command, as rbd-control calibrate writes it. Parameters of a "
        "single node go into a section named after the node. In Python: "
        'rbd_control.Robot.load("arm.yaml"); on the command line: --urdf arm.yaml.',
        {"urdf": ARM7},
    ),
    File(
        "contact_detector",
        "contact_detector",
        ContactDetectorParameters,
        "Contact detection beside an arm that publishes joint states with velocity and effort. "
        "config/arm.yaml has the parameters of the arm.",
    ),
    File(
        "passivity_controller",
        "passivity_controller",
        PassivityControllerParameters,
        "Slotine-Li control of an arm that takes joint torques (ros2_control: "
        "forward_command_controller on the interface effort, named effort_controller). "
        "config/arm.yaml has the parameters of the arm.",
    ),
    File(
        "contact_guard",
        "contact_guard",
        ContactGuardParameters,
        "Stop on contact of an arm that takes no torque: MoveIt, or a trajectory controller.",
    ),
    File(
        "hand_guide",
        "hand_guide",
        HandGuideNodeParameters,
        "An arm that is led by the hand on its tool. The contact detector needs the same "
        "tool_frame. config/arm.yaml has the parameters of the arm.",
    ),
    File(
        "simulated_arm",
        "simulated_arm",
        SimulatedArmParameters,
        "An arm for tests: joint states for torques. Pushes come from ~/external_wrench. "
        "config/arm.yaml has the parameters of the arm.",
        {"urdf": ARM7},
    ),
    File(
        "joint_state_player",
        "joint_state_player",
        PlayerParameters,
        "The joint states of a recording on joint_states.",
    ),
    File(
        "demo_scenario",
        "demo_scenario",
        DemoScenarioParameters,
        "Moves and pushes the arm of demo.launch.py, as rbd-control demo does.",
    ),
)

PARTS = (
    ("For your arm", "Choose these for the arm, its tool and its task."),
    ("From rbd-control calibrate", "The file of the arm that calibrate writes has these."),
    ("Expert", "Hardly any arm needs another value."),
)


def part_of(item: Field[Any]) -> int:
    """Return the index of the part of the file in which a parameter stands."""
    return 2 if item.metadata["expert"] else int(item.metadata["found_by_calibrate"])


def _owner(kind: type[Parameters], item: Field[Any]) -> type[Parameters]:
    """Return the class that declares a parameter."""
    return next(base for base in kind.__mro__ if item.name in vars(base).get("__annotations__", {}))


def value_text(value: Any) -> str:
    """Return a default as YAML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return yaml_text(value) if isinstance(value, str) else str(value).lower()


def range_text(item: Field[Any]) -> str:
    """Return the permitted values of a parameter, and whether it is fixed in an active node."""
    data, found = item.metadata, []
    if any(choice not in data["description"] for choice in data["choices"]):
        found.append(", ".join(data["choices"]))
    low, high, above = data["lower"], data["upper"], data["above"]
    if math.isfinite(high):
        is_above = math.isfinite(above)
        found.append(f"above {above:g}, to {high:g}" if is_above else f"{low:g} to {high:g}")
    if not data["live"]:
        found.append("fixed")
    return f" ({'; '.join(found)})" if found else ""


def description(item: Field[Any]) -> str:
    """Return the description of a parameter with its unit and its bounds."""
    unit = item.metadata["unit"]
    return item.metadata["description"] + (f" [{unit}]" if unit else "") + range_text(item)


def config_text(file: File) -> str:
    """Return the parameter file of a node, with all parameters at their defaults."""
    lines = [
        *(f"# {line}" for line in wrap(f"{file.use} {ABOUT}", WIDTH - 2)),
        f"{file.section}:",
        "  ros__parameters:",
    ]
    for part, (title, text) in enumerate(PARTS):
        if found := file.groups(part):
            lines += ["", f"    # ==== {title}. {text} ===="]
        for heading, items in found.items():
            lines += ["", f"    # -- {heading} --"]
            for item in items:
                lines += _entry(item, file.values.get(item.name, item.default))
    return "\n".join(lines) + "\n"


def _entry(item: Field[Any], value: Any) -> Iterator[str]:
    """Yield the lines of a parameter; one without a value is a comment."""
    mark = "" if value not in {(), ""} else "# "
    line = f"    {mark}{item.name}: {value_text(value)}"
    text = description(item)
    if len(line) + 4 + len(text) <= WIDTH:
        yield f"{line}  # {text}"
        return
    yield from (f"    # {part}" for part in wrap(text, WIDTH - 6))
    yield line


def page() -> str:
    """Return ``docs/parameters.md``, which shows the parameter files."""
    lines = [
        "# Parameters",
        "",
        "The files in `config/` describe all parameters of all nodes; `python -m "
        "bench.parameter_pages` makes them. Copy what you change into a file of your own. "
        "`ros2 param describe` shows the same.",
    ]
    for file in FILES:
        path = f"../config/{file.name}.yaml"
        lines += ["", f"## {file.name}", "", f"{file.use} [{path[3:]}]({path})"]
        lines += ["", f"```{{literalinclude}} {path}", ":language: yaml", "```"]
    return "\n".join(lines) + "\n"


def generated() -> dict[Path, str]:
    """Return all generated files: their texts by path."""
    files = {ROOT / "config" / f"{file.name}.yaml": config_text(file) for file in FILES}
    topics = ROOT / "docs" / "topics.md"
    return {**files, ROOT / "docs" / "parameters.md": page(), topics: with_events(topics)}


def with_events(page: Path) -> str:
    """Return the page of the topics with the present table of the key-values of an event."""
    before, head, rest = page.read_text(encoding="utf-8").partition("### `events`\n")
    table, gap, after = rest.partition("\n\n## ")
    heading = table.split("\n")[1:3]
    return "\n".join([before + head, *heading, *key_table(ContactEvent)]) + gap + after


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        print(f"written: {path.relative_to(ROOT)}")
