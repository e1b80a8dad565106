"""Estimates are read with the limits of all YAML files; a missing mesh reader is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from damage import sound

from rbd_control.control import Estimates
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.files.yaml_input import MAX_BYTES
from rbd_control.robot.shapes import MeshFiles, missing_geometry, surface_of

ODD = {
    "alias": ("links: &a {}\njoints: *a\n", "has a YAML alias"),
    "deep": (f"links: {'[' * 40}{']' * 40}\n", "is nested deeper than 32 levels"),
    "large": ("#" * (MAX_BYTES + 1), "is larger than 2 MB"),
    "damaged": ("a: [", "is not YAML"),
}


@pytest.mark.parametrize(("text", "says"), ODD.values(), ids=ODD.keys())
def test_estimates_are_read_with_the_limits_of_yaml_files(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "estimates.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        Estimates.load(path)
    assert str(refused.value).startswith(f"cannot read estimates from {path}: {says}")
    assert "\n" not in str(refused.value)


TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A description whose links have a mesh that only trimesh reads, which is not installed."""
    monkeypatch.setitem(sys.modules, "trimesh", None)
    solid = "<collision><geometry><mesh filename='a.obj'/></geometry></collision></link>"
    path = tmp_path / "two.urdf"
    path.write_text(sound.URDF.replace("</link>", solid))
    (tmp_path / "a.obj").write_text(TETRAHEDRON)
    return path


def test_a_mesh_without_reader_is_named_by_the_node(arm: Path) -> None:
    """The note advised to check the path of the mesh."""
    urdf = arm.read_text()
    model = Model.from_urdf(urdf)
    note = missing_geometry(model, surface_of(model, urdf, MeshFiles(arm.parent)))
    assert note.endswith(
        "identified less reliably; meshes that are not binary STL need the package trimesh, which "
        "is not installed (pip install trimesh): a.obj"
    )
    assert "\n" not in note
