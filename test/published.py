"""Published topics of the nodes: types by topic, and the keys that docs/topics.md lists."""

from __future__ import annotations

import re
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray

from rbd_control.nodes.contact_detector import ContactDetectorNode
from rbd_control.nodes.contact_guard import ContactGuard
from rbd_control.nodes.hand_guide import HandGuideNode
from rbd_control.nodes.passivity_controller import PassivityControllerNode
from rbd_control.nodes.simulated_arm import SimulatedArmNode

PAGE = Path(__file__).resolve().parent.parent / "docs" / "topics.md"


def full_name(topic: str, node: str) -> str:
    """Return the full name of a topic of a node without a namespace."""
    return f"/{node}{topic[1:]}" if topic.startswith("~") else f"/{topic}"


NODES = (
    ContactDetectorNode,
    ContactGuard,
    HandGuideNode,
    PassivityControllerNode,
    SimulatedArmNode,
)

TYPES: dict[str, type] = {
    "/diagnostics": DiagnosticArray,
    **{
        full_name(output.topic, node.__module__.rpartition(".")[2]): output.kind
        for node in NODES
        for output in node.outputs
    },
}
"""Types of the topics that the files in config/ may name, without namespace."""


def _tables() -> dict[str, dict[str, str]]:
    """Return the keys of each table of the page, and whether each is always there."""
    found: dict[str, dict[str, str]] = {}
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        heading = re.match(r"### `(.+)`", line)
        if heading:
            section = heading[1]
        row = re.match(r"\| (`.+?`) \|(.*?)\|", line)
        if row and section:
            keys = re.findall("`(.+?)`", row[1])
            found.setdefault(section, {}).update(dict.fromkeys(keys, row[2].strip() or "always"))
        if line.startswith("## "):
            section = ""
    return found


KEYS = _tables()
"""Keys that docs/topics.md lists, with the text of their second column, by section: ``events``,
``verdict``, ``every node`` or the name of a node."""


def key_pattern(key: str) -> str:
    """Return the regular expression of a documented key, in which ``<joint>`` is any name."""
    parts = re.split(r"<\w+>", key)
    return ".+".join(re.escape(part) for part in parts)
