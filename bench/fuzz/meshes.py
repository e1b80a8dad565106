"""Valid mesh files of a cube, damaged copies, and a robot description that refers to a mesh."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from itertools import product
from random import Random

import numpy as np

from bench.fuzz.file_damage import damaged_bytes
from bench.fuzz.odd_values import odd_integer, odd_number, odd_text
from bench.fuzz.recordings import ROBOT

CORNERS = 0.05 * np.array(list(product((-1.0, 1.0), repeat=3)))
"""Corners of the cube, (8, 3) [m]."""

QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
FACES = np.array([face for a, b, c, d in QUADS for face in ((a, b, c), (a, c, d))])
"""Triangles of the cube, (12, 3), as rows of :data:`CORNERS`."""

LARGE = 200_000
"""Number of repeated lines in a large file, which is not too large to be read."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_TAG = re.compile(r"<(/?\w+)")

_BOMB = "<!DOCTYPE COLLADA [" + "".join(
    f'<!ENTITY e{k} "{f"&e{k - 1};" * 10 if k else "1 "}">' for k in range(9)
)
"""Entities that expand to a billion numbers."""


def stl_binary() -> bytes:
    """Return the cube as a binary STL file."""
    triangles = (struct.pack("<12fH", 0.0, 0.0, 0.0, *CORNERS[face].ravel(), 0) for face in FACES)
    return bytes(80) + struct.pack("<I", len(FACES)) + b"".join(triangles)


def stl_text() -> bytes:
    """Return the cube as an STL file in text form."""
    lines = ["solid cube"]
    for face in FACES:
        corners = [f"      vertex {x:g} {y:g} {z:g}" for x, y, z in CORNERS[face]]
        lines += ["  facet normal 0 0 0", "    outer loop", *corners, "    endloop", "  endfacet"]
    return "\n".join([*lines, "endsolid cube", ""]).encode()


def obj() -> bytes:
    """Return the cube as an OBJ file."""
    lines = [f"v {x:g} {y:g} {z:g}" for x, y, z in CORNERS]
    lines += [f"f {a} {b} {c}" for a, b, c in FACES + 1]
    return "\n".join(["o cube", *lines, ""]).encode()


def dae() -> bytes:
    """Return the cube as a COLLADA file."""
    numbers = " ".join(f"{x:g}" for x in CORNERS.ravel())
    indices = " ".join(str(k) for k in FACES.ravel())
    return f"""<?xml version="1.0" encoding="utf-8"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="meter" meter="1"/><up_axis>Z_UP</up_axis></asset>
  <library_geometries><geometry id="cube"><mesh>
    <source id="corners">
      <float_array id="numbers" count="{CORNERS.size}">{numbers}</float_array>
      <technique_common><accessor source="#numbers" count="{len(CORNERS)}" stride="3">
        <param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/>
      </accessor></technique_common>
    </source>
    <vertices id="vertices"><input semantic="POSITION" source="#corners"/></vertices>
    <triangles count="{len(FACES)}">
      <input semantic="VERTEX" source="#vertices" offset="0"/><p>{indices}</p>
    </triangles>
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="scene">
    <node id="node"><instance_geometry url="#cube"/></node>
  </visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#scene"/></scene>
</COLLADA>
""".encode()


SOUND: Mapping[str, tuple[Callable[[], bytes], ...]] = {
    "stl": (stl_binary, stl_text),
    "obj": (obj,),
    "dae": (dae,),
}
"""Functions that create undamaged files of each format."""


def damaged_mesh(random: Random, ending: str) -> bytes:
    """Return a damaged mesh file.

    Args:
        random: source of all choices.
        ending: suffix and format, a key of :data:`SOUND`.
    """
    make = random.choice(SOUND[ending])
    data = make()
    choice = random.random()
    if choice < 0.4:
        return damaged_bytes(random, data)
    if choice < 0.45:  # the content of another format under this ending
        return random.choice(SOUND[random.choice(tuple(SOUND))])()
    if make is stl_binary:
        return _wrong_stl(random, data)
    text = data.decode()
    for _ in range(random.choice((1, 1, 3))):
        text = random.choice((_wrong_number, _wrong_number, _wrong_order, _noise))(random, text)
    if ending == "dae":
        text = random.choice((_same, _same, _wrong_tag, _bomb))(random, text)
    elif random.random() < 0.1:
        text = _large(random, text)
    return text.encode("utf-8", "replace")


def meshed_robot(random: Random, name: str) -> str:
    """Return a URDF of the robot of two joints whose links have a mesh as collision geometry.

    Args:
        random: source of the scale of the mesh, which may be invalid.
        name: address of the mesh, the ``filename`` in the URDF.
    """
    scale = random.choice(("1 1 1", "1 1 1", "0.001 0.001 0.001", "1e300 1 1", "nan 1 1", "0 0 0"))
    element = (
        f'<collision><geometry><mesh filename="{name}" scale="{scale}"/></geometry></collision>'
    )
    return ROBOT.replace("</inertial>", f"</inertial>{element}")


def _wrong_stl(random: Random, data: bytes) -> bytes:
    """Return a binary STL file with a wrong count, or coordinates that are no positions."""
    changed = bytearray(data)
    if random.random() < 0.4:
        struct.pack_into("<I", changed, 80, random.choice((0, 1, 13, 2**31, 2**32 - 1)))
        return bytes(changed)
    number = random.choice((float("nan"), float("inf"), 3e38, 1e-45, 0.0))
    for _ in range(random.choice((1, 12, 100))):
        struct.pack_into("<f", changed, 84 + 50 * random.randrange(12) + 12, number)
    return bytes(changed)


def _same(random: Random, text: str) -> str:
    return text


def _wrong_number(random: Random, text: str) -> str:
    """Replace one number: a coordinate, an index or a count."""
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    number = odd_integer(random) if random.random() < 0.5 else odd_number(random)
    return text[: match.start()] + repr(number) + text[match.end() :]


def _wrong_order(random: Random, text: str) -> str:
    """Move, repeat or remove lines."""
    lines = text.splitlines()
    begin = random.randrange(len(lines))
    part = lines[begin : begin + random.choice((1, 3, 20))]
    change = random.choice(("move", "repeat", "remove"))
    if change != "repeat":
        del lines[begin : begin + len(part)]
    if change != "remove":
        at = random.randrange(len(lines) + 1)
        lines[at:at] = part
    return "\n".join(lines) + "\n"


def _noise(random: Random, text: str) -> str:
    """Insert random text somewhere."""
    at = random.randrange(len(text) + 1)
    return text[:at] + odd_text(random)[:1000] + text[at:]


def _large(random: Random, text: str) -> str:
    """Repeat one line many times."""
    return text + f"{random.choice(text.splitlines() or [''])}\n" * LARGE


def _wrong_tag(random: Random, text: str) -> str:
    """Give one element another name, which leaves it unclosed or unknown."""
    found = list(_TAG.finditer(text))
    if not found:
        return text
    match = random.choice(found)
    return f"{text[: match.start(1)]}other{text[match.end(1) :]}"


def _bomb(random: Random, text: str) -> str:
    """Return a document whose entities expand without end."""
    head, _, rest = text.partition("?>")
    return f"{head}?>{_BOMB}]>{_NUMBER.sub('&e8;', rest, count=1)}"
