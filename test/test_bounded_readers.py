"""Estimates are read with the limits of all YAML files; a missing mesh reader is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbd_control.control import Estimates
from rbd_control.errors import InputError
from rbd_control.files.yaml_input import MAX_BYTES

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
