"""Published topics of the nodes: types by topic, and the keys that docs/topics.md lists."""

from __future__ import annotations

import re
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from visualization_msgs.msg import MarkerArray

PAGE = Path(__file__).resolve().parent.parent / "docs" / "topics.md"

TYPES: dict[str, type] = {
    "/joint_states": JointState,
    "/robot_description": String,
    "/diagnostics": DiagnosticArray,
    "/contact_detector/contact": Bool,
    "/contact_detector/contact_stamped": DiagnosticArray,
    "/contact_detector/events": DiagnosticArray,
    "/contact_detector/external_joint_torques": JointState,
    "/contact_detector/external_wrench": WrenchStamped,
    "/contact_detector/markers": MarkerArray,
    "/contact_detector/tool_wrench": WrenchStamped,
    "/contact_detector/tool_wrench_covariance": Float64MultiArray,
    "/effort_controller/commands": Float64MultiArray,
    "/passivity_controller/energy": Float64MultiArray,
    "/passivity_controller/tracking_error": JointState,
    "/simulated_arm/true_external_wrench": WrenchStamped,
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
        row = re.match(r"\| `(.+?)` \| (.*?) \|", line)
        if row and section:
            found.setdefault(section, {})[row[1]] = row[2]
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
