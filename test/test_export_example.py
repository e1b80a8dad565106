"""The estimate of the example for ros2_control equals the observer in Python."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rbd_control.estimation import MomentumObserver
from rbd_control.export import export_c
from rbd_control.robot import Robot

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "external_torque_broadcaster"
CC, CXX = shutil.which("cc"), shutil.which("c++")

PROGRAM = """
#include <cstdio>
#include "external_torque_broadcaster/external_torque.hpp"
int main()
{
  external_torque_broadcaster::ExternalTorque estimate;
  external_torque_broadcaster::JointVector gain;
  gain.fill(30.0);
  estimate.set_gain(gain);
  double period;
  while (std::scanf("%lf", &period) == 1) {
    external_torque_broadcaster::Sample sample;
    for (auto * part : {&sample.position, &sample.velocity, &sample.effort}) {
      for (double & x : *part) {
        if (std::scanf("%lf", &x) != 1) {
          return 1;
        }
      }
    }
    const bool taken = estimate.update(sample, period);
    std::printf("%d", taken);
    for (double x : estimate.torque()) {
      std::printf(" %.17g", x);
    }
    std::printf("\\n");
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (CC and CXX):
        pytest.skip("no C++ compiler is installed")
    folder = tmp_path_factory.mktemp("example")
    functions = ("momentum_observer",)
    files = export_c(Robot.load("arm7"), prefix="arm", functions=functions, header_name="arm.h")
    source = files.write(folder / "arm.h")
    (folder / "main.cpp").write_text(PROGRAM)
    warnings = ("-Wall", "-Wextra", "-Werror", "-O1")
    subprocess.run([CC, *warnings, "-std=c99", "-c", source, "-o", folder / "arm.o"], check=True)
    subprocess.run(
        [
            *(CXX, *warnings, "-std=c++17", f"-I{folder}", f"-I{EXAMPLE / 'include'}"),
            *(folder / "main.cpp", folder / "arm.o", "-o", folder / "main", "-lm"),
        ],
        check=True,
    )
    return folder / "main"


def estimates(program: Path, cycles: list[tuple[float, np.ndarray]]) -> list[list[float]]:
    """Return of each cycle whether its sample was taken, and the torques."""
    text = "\n".join(
        " ".join(map(repr, [period, *sample.ravel().tolist()])) for period, sample in cycles
    )
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [[float(x) for x in line.split()] for line in done.stdout.splitlines()]


def observed(observer: MomentumObserver, sample: np.ndarray, period: float) -> np.ndarray:
    q, v, tau = sample
    return observer.update(q, v, tau, period)


def test_without_a_sample_there_is_no_estimate_and_no_time_is_lost(program: Path) -> None:
    rng = np.random.default_rng(4)
    first, last = rng.uniform(-1.0, 1.0, (2, 3, 7))
    broken = last.copy()
    broken[1, 2] = math.nan
    rows = estimates(program, [(1e-3, first), (1e-3, broken), (2e-3, last)])
    assert [row[0] for row in rows] == [1.0, 0.0, 1.0]
    assert all(math.isnan(x) for x in rows[1][1:])
    observer = MomentumObserver(Robot.load("arm7").model, 30.0)
    observed(observer, first, 1e-3)
    assert rows[2][1:] == pytest.approx(observed(observer, last, 3e-3), rel=1e-9, abs=1e-9)
