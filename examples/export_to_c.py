"""The dynamics of one arm as C99, compiled and compared with Python.

Writes arm.h and arm.c for the arm that ships with the package, compiles them with a main of ten
lines and prints the largest difference between the gravity torques of both. Without a C compiler it
prints the size of the C code only.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from rbd_control import Robot
from rbd_control.dynamics import gravity_torque
from rbd_control.export import export_c

MAIN = """
#include <stdio.h>
#include "arm.h"
int main(void)
{
    double q[7], g[7];
    for (int i = 0; i < 7; i++)
        if (scanf("%lf", &q[i]) != 1) return 1;
    arm_gravity_torque(q, g);
    for (int i = 0; i < 7; i++)
        printf("%.17g\\n", g[i]);
    return 0;
}
"""

robot = Robot.load("arm7")  # or arm.yaml, or a URDF
files = export_c(robot, prefix="arm", functions=("gravity_torque", "momentum_observer"))
compiler = shutil.which("cc")
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    source = files.write(folder / "arm.h")
    print(f"arm.c has {source.stat().st_size // 1000} kB")
    if compiler:
        (folder / "main.c").write_text(MAIN, encoding="utf-8")
        command = [compiler, "-O1", "-std=c99", "main.c", "arm.c", "-lm", "-o", "main"]
        subprocess.run(command, cwd=folder, check=True)
        q = np.random.default_rng(0).uniform(-1.0, 1.0, 7)
        text = " ".join(map(repr, q.tolist()))
        done = subprocess.run(
            folder / "main", input=text, capture_output=True, text=True, check=True
        )
        g = np.array(done.stdout.split(), dtype=float)
        difference = np.abs(g - gravity_torque(robot.model, q)).max()
        print(f"gravity torque in C and in Python: difference {difference:.0e} N·m")
