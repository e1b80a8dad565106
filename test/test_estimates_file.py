"""The file of estimates: whole, with its permissions, and always with an answer to the order."""

from __future__ import annotations

import stat
from pathlib import Path
from threading import Event

import pytest

pytest.importorskip("rclpy", reason="ROS 2 is not installed")

from rbd_control.control import AdaptiveSlotineLiController, ControllerParameters, Estimates
from rbd_control.control.controller_parameters import AdaptationParameters
from rbd_control.dynamics import Model
from rbd_control.nodes.order_services import EstimatesWriter, read_estimates, write_estimates
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def estimates() -> Estimates:
    model = Model.from_urdf(arm7_urdf())
    law = AdaptiveSlotineLiController(model, ControllerParameters(), AdaptationParameters())
    return law.estimates


def test_a_file_keeps_its_permissions(estimates: Estimates, tmp_path: Path) -> None:
    path = tmp_path / "estimates.yaml"
    path.write_text("old")
    path.chmod(0o640)
    write_estimates(str(path), estimates)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    found = read_estimates(str(path))
    assert found is not None
    assert found.to_dict() == estimates.to_dict()


def test_an_unexpected_error_is_an_answer_too(estimates: Estimates) -> None:
    """The sender of ``~/save_estimates`` waited for ever."""
    answers: list[tuple[str, bool]] = []
    answered = Event()

    def done(text: str, is_written: bool) -> None:
        answers.append((text, is_written))
        answered.set()

    EstimatesWriter("a path with \0").write(estimates, done)
    assert answered.wait(60.0)
    ((text, is_written),) = answers
    assert not is_written
    assert "null byte" in text
