"""Machine and versions of libraries, which are part of the results."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("numpy", "numba", "pin", "mujoco", "casadi", "drake", "frax", "jax")


def machine() -> dict[str, str]:
    """Return a description of this machine: processor, clock, load, system and versions by name."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "clock": _clock(),
        "load": f"{os.getloadavg()[0]:.1f} over the last minute",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "C++": _compiler(),
    }


def _cpuinfo(field: str) -> list[str]:
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return re.findall(rf"^{field}\s*:\s*(.*)$", text, re.MULTILINE)


def _processor() -> str:
    return next(iter(_cpuinfo("model name")), platform.processor() or platform.machine())


def _clock() -> str:
    megahertz = [float(value) for value in _cpuinfo("cpu MHz")]
    if not megahertz:
        return "unknown"
    return f"{min(megahertz) / 1e3:.2f} to {max(megahertz) / 1e3:.2f} GHz as it ran"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _compiler() -> str:
    compiler = os.environ.get("CXX", "c++")
    try:
        shown = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return shown.stdout.splitlines()[0]
