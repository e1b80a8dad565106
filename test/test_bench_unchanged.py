"""The judge of unchanged results reports no difference for the same code, and each change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.unchanged import controller
from bench.unchanged.store import Case, differences, load, save
from rbd_control.control import Command, PassivityController


def small_controller() -> Case:
    """Return the result of one run with two orders on the small arm."""
    return controller.random_run(2, actions=2)


def test_a_run_of_the_controller_repeats_to_the_last_bit(tmp_path: Path) -> None:
    save(tmp_path, "controller", {"run": small_controller()})
    assert not list(differences(load(tmp_path, "controller"), {"run": small_controller()}))


def test_a_torque_that_differs_by_1e_7_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = small_controller()
    update = PassivityController.update

    def changed(self: Any, *arguments: Any) -> Command:
        command = update(self, *arguments)
        return command._replace(torque=1.0000001 * command.torque)

    monkeypatch.setattr(PassivityController, "update", changed)
    found = list(differences({"run": before}, {"run": small_controller()}))
    assert any("torque" in text for _, text in found)
