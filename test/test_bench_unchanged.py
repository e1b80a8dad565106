"""The judge of unchanged results reports no difference for the same code, and each change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.unchanged import controller, guard
from bench.unchanged.__main__ import main
from bench.unchanged.store import Case, differences, load, save
from rbd_control.control import Command, PassivityController


def small_controller() -> Case:
    """Return the result of one run with two orders on the small arm."""
    return controller.random_run(2, actions=2)


def test_a_run_of_the_controller_repeats_to_the_last_bit(tmp_path: Path) -> None:
    save(tmp_path, "controller", {"run": small_controller()})
    assert not list(differences(load(tmp_path, "controller"), {"run": small_controller()}))


def test_one_changed_bit_and_one_changed_text_are_reported(tmp_path: Path) -> None:
    torque = np.linspace(0.0, 1.0, 12).reshape(4, 3)
    told: dict[str, Any] = {"sample 0": "hold", "sample 3": "safe"}
    save(tmp_path, "part", {"run": {"torque": torque, "state": told}})
    changed = torque.copy()
    changed[2, 1] = np.nextafter(changed[2, 1], 2.0)
    new = {"run": {"torque": changed, "state": {**told, "sample 3": "float"}}}
    found = list(differences(load(tmp_path, "part"), new))
    assert [name for name, _ in found] == ["run"] * 3
    count, value, state = (text for _, text in found)
    assert state == "state/sample 3: 'safe' -> 'float'"
    assert count.startswith("torque: 1 of 12 values differ")
    assert value == "torque[2, 1]: 0.6363636363636364 -> 0.6363636363636365"


def test_the_command_compares_a_part_and_ends_with_1_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(guard, "SAMPLES", 300)
    assert main(["record", str(tmp_path), "--only", "guard"]) == 0
    assert main(["compare", str(tmp_path), "--only", "guard"]) == 0
    assert "no difference" in capsys.readouterr().out
    monkeypatch.setattr(guard, "PERIOD", 0.0100001)
    assert main(["compare", str(tmp_path), "--only", "guard"]) == 1
    assert "guard: run 0" in capsys.readouterr().out


def test_a_torque_that_differs_by_1e_7_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = small_controller()
    update = PassivityController.update

    def changed(self: Any, *arguments: Any) -> Command:
        command = update(self, *arguments)
        return command._replace(torque=1.0000001 * command.torque)

    monkeypatch.setattr(PassivityController, "update", changed)
    found = list(differences({"run": before}, {"run": small_controller()}))
    assert any("torque" in text for _, text in found)
