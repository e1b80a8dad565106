"""Damaged robot descriptions and parameter files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from damage import raw, sound

_ELBOW = '<joint name="elbow" type="revolute">'
_BODY = '<mass value="3"/>'
_INERTIA = '<inertia ixx="0.01" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>'

URDF_CHANGES: tuple[tuple[str, str], ...] = (
    ("</robot>", ""),
    ("<robot", "<sdf"),
    ('name="two"', 'name="two" xmlns:xacro="http://www.ros.org/wiki/xacro"'),
    ('<link name="base"/>', '<xacro:include filename="x"/><link name="base"/>'),
    ('name="base"', 'name="${prefix}base"'),
    ('name="base"', 'name="ba\x1bse"'),
    ('name="base"', f'name="{"b" * 5000}"'),
    ('<link name="base"/>', ""),
    ('<link name="base"/>', '<link name="base"/><link name="base"/>'),
    ('<link name="base"/>', '<link name="base"/><link name="lamp"/>'),
    ('<link name="base"/>', "<link/>"),
    ('link="upper"', 'link="lower"'),
    ('link="base"', 'link="lower"'),
    ('link="base"', 'link="bse"'),
    ('<child link="lower"/>', ""),
    ('name="elbow"', 'name="shoulder"'),
    ('name="elbow"', 'name="elbw"'),
    (_ELBOW, _ELBOW + '<mimic joint="shoulder"/>'),
    (_ELBOW, '<joint name="elbow" type="ball">'),
    (_ELBOW, '<joint name="elbow" type="floating">'),
    (_ELBOW, '<joint name="elbow" type="planar">'),
    (_ELBOW, '<joint name="elbow" type="prismatic">'),
    (_ELBOW, '<joint name="elbow" type="continuous">'),
    (_ELBOW, '<joint name="elbow" type="fixed">'),
    ('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>'),
    ('<axis xyz="0 1 0"/>', '<axis xyz="0 1"/>'),
    ('<axis xyz="0 1 0"/>', '<axis xyz="0 nan 0"/>'),
    ('<axis xyz="0 1 0"/>', '<axis xyz="0 1e300 0"/>'),
    ('<axis xyz="0 1 0"/>', '<axis xyz="0 1e-300 0"/>'),
    (_BODY, '<mass value="-3"/>'),
    (_BODY, '<mass value="nan"/>'),
    (_BODY, '<mass value="1e300"/>'),
    (_BODY, '<mass value="heavy"/>'),
    (_BODY, '<mass value="0"/>'),
    (_BODY, '<mass value="1e-30"/>'),
    (_BODY, "<mass/>"),
    (_BODY, ""),
    (_INERTIA, ""),
    (_INERTIA, _INERTIA.replace("0.01", "0")),
    (_INERTIA, _INERTIA.replace("0.1", "0").replace("0.01", "0")),
    (_INERTIA, _INERTIA.replace("0.01", "-1")),
    (_INERTIA, _INERTIA.replace("0.01", "5")),
    (_INERTIA, _INERTIA.replace("0.01", "nan")),
    (_INERTIA, _INERTIA.replace("ixx", "ixz")),
    ('effort="100"', 'effort="0"'),
    ('effort="100"', 'effort="-1"'),
    ('effort="100"', 'effort="nan"'),
    ('effort="100"', 'effort="inf"'),
    ('effort="100"', 'effort="1e-300"'),
    ('velocity="3"', 'velocity="0"'),
    ('velocity="3"', ""),
    ('lower="-3"', 'lower="5"'),
    ('lower="-3"', 'lower="x"'),
    ("<robot", '<!DOCTYPE r [<!ENTITY a "b">]><robot'),
    ("<robot", '<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot'),
    ("<robot", '<?xml version="1.0" encoding="utf-7"?><robot'),
    ("<robot", '<?xml version="1.0" encoding="rot13"?><robot'),
    ("</robot>", "<a>" * 5000 + "</a>" * 5000 + "</robot>"),
    ("</robot>", "<a/>" * 300_000 + "</robot>"),
    ("</robot>", "<!--" + "x" * 2_000_000 + "--></robot>"),
    ("</robot>", '<link name="l"/>' * 3000 + "</robot>"),
    ("</robot>", '<joint name="l" type="fixed"/>' * 3000 + "</robot>"),
)


def description(rng: np.random.Generator, folder: Path) -> Path:
    """Write a damaged URDF."""
    path = folder / "two.urdf"
    draw = rng.random()
    if raw.write_damaged_text(rng, path, sound.URDF, draw, (0.35, 0.38, 0.40, 0.42)):
        return path
    if draw < 0.44:
        path = folder / "gone.urdf"
    elif draw < 0.46:
        path.write_text(" \n")
    elif draw < 0.48:
        path.write_bytes(b" " * 11_000_000)
    else:
        old, new = URDF_CHANGES[int(rng.integers(len(URDF_CHANGES)))]
        path.write_text(sound.URDF.replace(old, new, int(rng.integers(1, 3))))
    return path


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
    "0", "-1", "1e308", "-1e308", ".nan", ".inf", "1e400", "x", "'1'", "true", "null", "[]", "{}",
    "[1, x]", "[[1]]", "[1, 2, 3]", "2020-01-01", "!!binary aGVsbG8=", "1" * 5000, "'" + "x" * 5000
    + "'", '"\\e[31m\\n"', "[" + "1.0, " * 2000 + "1.0]", "[1.0, .nan]", "1e-320", "0b101", "12:30",
)  # fmt: skip
NAMES = (
    "joints", "contact_threshold", "collision_threshold", "observer", "observer_gain",
    "payload_com", "friction_model", "friction_coulomb", "friction_viscous", "effort_kind",
    "effort_gain",
    "maximum_gap", "settling_time", "payload_mass", "payload_link", "payload_inertia",
    "mass_correction", "residual_covariance", "force_link", "no_such_parameter", "use_sim_time",
    "rotor_inertia", "statistic_threshold", "onset_debounce", "1", "'a\\nb'",
)  # fmt: skip
CONFIGS = (
    "", "\n", "[]", "5", "null", "a: b\n", "contact_detector: 5\n", "contact_detector:\n",
    "contact_detector: {ros__parameters: 5}\n", "contact_detector: {ros__parameters: [1, 2]}\n",
    "passivity_controller: {ros__parameters: {a: 1}}\n", "\tcontact_detector: {}\n",
    "contact_detector:\n\tros__parameters:\n", "a: b: c\n", "%TAG ! x\n---\n!a b\n",
    "!!python/object/apply:os.system ['true']\n", "--- a\n--- b\n", "{1: {2: 3}}\n",
    "[" * 100_000 + "]" * 100_000, "a: " * 100_000, "- " * 50_000, _merge_bomb(),
    *(_bomb(key) for key in ("contact_threshold", "joints", "payload_com", "observer")),
    _section("1: 2, 3: 4"), _section("? [a, b] : c"), _section("contact_threshold: *x"),
    "x" * 3_000_000, "a: &a [*a]\ncontact_detector: {ros__parameters: *a}\n",
)  # fmt: skip


def config(rng: np.random.Generator, folder: Path) -> Path:
    """Write a damaged parameter file."""
    path = folder / "detector.yaml"
    draw = rng.random()
    if raw.write_damaged_text(rng, path, sound.CONFIG, draw, (0.25, 0.27, 0.29, 0.31)):
        return path
    if draw < 0.5:
        path.write_text(CONFIGS[int(rng.integers(len(CONFIGS)))])
    else:
        name, value = (each[int(rng.integers(len(each)))] for each in (NAMES, VALUES))
        lines = [line for line in sound.CONFIG.splitlines() if f" {name}:" not in line]
        path.write_text("\n".join([*lines, f"    {name}: {value}"]) + "\n")
    return path
