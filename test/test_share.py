"""The shipped files are found in a checkout, a ROS 2 workspace and a Python environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rbd_control import share


@pytest.mark.parametrize("where", ["workspace", "environment"])
def test_where_it_was_installed(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / where / "share" / "rbd_control"
    (installed / "config").mkdir(parents=True)
    monkeypatch.setattr(share, "__file__", str(tmp_path / "site-packages" / "x" / "share.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "workspace"))
    assert share.share_directory() == installed
