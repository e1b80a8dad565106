"""Exported C equals the library on published robots and with mimic joints, by all compilers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dynamics.test_mimic_joints import MIMICS, with_mimics
from exported_code import TOLERANCE, Code, largest_difference, needs_compiler
from robots import random_tree_urdf, urdf_path

from bench.export.compilers import Compiler, compilers
from rbd_control.dynamics import Model
from rbd_control.export import export_c
from rbd_control.robot import Robot


def mimicking(*, floating_base: bool = False) -> Model:
    """Return a random tree with chains of mimic joints, whose leaders may come later."""
    text = with_mimics(random_tree_urdf(7, 9), MIMICS)
    return Model.from_urdf(text, floating_base=floating_base, gravity=(1.0, -2.0, -9.0))


ROBOTS: dict[str, Callable[[], Model]] = {
    "mimics": mimicking,
    "floating_mimics": lambda: mimicking(floating_base=True),
    "hand": lambda: Model.from_urdf(urdf_path("panda")),
    "tiago": lambda: Model.from_urdf(urdf_path("tiago")),
    "tiago_pro": lambda: Model.from_urdf(urdf_path("tiago_pro")),
    "talos": lambda: Model.from_urdf(urdf_path("talos"), floating_base=True),
}
"""All but ``tiago`` have mimic joints: the tree 4, the Panda's hand 1, Tiago Pro 10, Talos 12."""


@needs_compiler
@pytest.mark.parametrize("name", ROBOTS)
def test_exported_functions_equal_the_library(name: str, tmp_path: Path) -> None:
    model = ROBOTS[name]()
    assert bool(model.mimic_joints) == (name != "tiago")
    # Optimization takes minutes for the large robots, and their results are the same without.
    code = Code(export_c(model, prefix=name), name, tmp_path, "-O0")
    rng = np.random.default_rng(8)
    for _ in range(2):
        different = largest_difference(code, model, rng)
        assert {k: e for k, e in different.items() if not e < TOLERANCE} == {}


@needs_compiler
@pytest.mark.parametrize("single", [False, True], ids=["double", "float"])
@pytest.mark.parametrize("compiler", compilers(), ids=lambda compiler: compiler.name)
def test_each_compiler_accepts_the_code_without_a_warning(
    compiler: Compiler, single: bool, tmp_path: Path
) -> None:
    header = tmp_path / "arm.h"
    files = export_c(Robot.load("arm7"), prefix="arm", functions=("all",), single=single)
    # Without optimization compilers miss variables that are never set.
    assert compiler.complaint(files.write(header), "-O1", "-Wconversion") == ""
