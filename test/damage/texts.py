"""Damaged robot descriptions and parameter files."""

from __future__ import annotations

_ELBOW = '<joint name="elbow" type="revolute">'
_BODY = '<mass value="3"/>'
_INERTIA = '<inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>'

URDF_CHANGES: tuple[tuple[str, str], ...] = (
    ("</robot>", ""),
    ("<robot", "<sdf"),
    ('name="two"', 'name="two" xmlns:xacro="http://www.ros.org/wiki/xacro"'),
    ('name="base"', 'name="ba\x1bse"'),
    ('name="base"', f'name="{"b" * 5000}"'),
    ('<link name="base"/>', ""),
    ('<link name="base"/>', "<link/>"),
    ('link="base"', 'link="lower"'),
    ('name="elbow"', 'name="elbw"'),
    (_ELBOW, '<joint name="elbow" type="ball">'),
    ('<axis xyz="0 1 0"/>', '<axis xyz="0 1e300 0"/>'),
    (_BODY, '<mass value="nan"/>'),
    (_BODY, '<mass value="1e300"/>'),
    (_INERTIA, _INERTIA.replace("0.1", "0").replace("0.01", "0")),
    ('effort="100"', 'effort="nan"'),
    ('effort="100"', 'effort="1e-300"'),
    ('velocity="3"', ""),
    ('lower="-3"', 'lower="5"'),
    ("<robot", '<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot'),
    ("<robot", '<?xml version="1.0" encoding="rot13"?><robot'),
    ("</robot>", "<a>" * 5000 + "</a>" * 5000 + "</robot>"),
    ("</robot>", "<!--" + "x" * 2_000_000 + "--></robot>"),
    ("</robot>", '<link name="l"/>' * 3000 + "</robot>"),
)


def _bomb(key: str) -> str:
    levels = "abcdefghij"
    lines = ["a: &a [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]"]
    lines += [
        f"{y}: &{y} [{', '.join([f'*{x}'] * 9)}]" for x, y in zip(levels, levels[1:], strict=False)
    ]
    return "\n".join([*lines, f"contact_detector: {{ros__parameters: {{{key}: *j}}}}\n"])


def _merge_bomb() -> str:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{k + 1}: &a{k + 1} {{<<: [*a{k}, *a{k}]}}" for k in range(40)]
    return "\n".join([*lines, "contact_detector: {ros__parameters: *a40}\n"])


def _section(text: str) -> str:
    return f"contact_detector: {{ros__parameters: {{{text}}}}}\n"


VALUES = (
    "1e308", ".nan", "1e400", "x", "true", "null", "{}", "[1, x]", "[[1]]", "2020-01-01",
    "!!binary aGVsbG8=", "1" * 5000, '"\\e[31m\\n"', "[" + "1.0, " * 2000 + "1.0]", "12:30",
)  # fmt: skip
CONFIGS = (
    "", "[]", "5", "a: b\n", "contact_detector: 5\n", "contact_detector:\n",
    "contact_detector: {ros__parameters: [1, 2]}\n", "\tcontact_detector: {}\n",
    "!!python/object/apply:os.system ['true']\n", "--- a\n--- b\n",
    "[" * 100_000 + "]" * 100_000, "- " * 50_000, _merge_bomb(), _bomb("contact_threshold"),
    _section("1: 2, 3: 4"), _section("? [a, b] : c"), _section("contact_threshold: *x"),
    "x" * 3_000_000, "a: &a [*a]\ncontact_detector: {ros__parameters: *a}\n",
    *(_section(f"contact_threshold: {value}") for value in VALUES),
    *(_section(f"{name}: {{}}") for name in ("joints", "observer", "payload_com", "1")),
)  # fmt: skip
