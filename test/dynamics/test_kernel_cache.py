"""Compiled code on disk: whatever happens to file or folder, kernels run, and run their sources."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import pickle
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from numba.core import config
from unprivileged import unprivileged

from rbd_control.dynamics import kernel_cache
from rbd_control.dynamics.kernel_cache import MAGIC, CacheUse

ROOT = Path(kernel_cache.__file__).resolve().parents[2]

KERNELS = """
from rbd_control.dynamics.compiled import compiled

@compiled
def double(x):
    return 2.0 * x

@compiled
def triple(x):
    return 3.0 * x
"""

RUN = """
from rbd_control.dynamics.kernel_cache import use
from kept.kernels import double, triple
print(double(1.0), triple(1.0), sum(double.stats.cache_hits.values()), len(use.discarded))
"""

HEADER = len(MAGIC) + 2 * hashlib.sha256().digest_size


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> CacheUse:
    """Start counting anew."""
    fresh = CacheUse()
    monkeypatch.setattr(kernel_cache, "use", fresh)
    return fresh


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep compiled code in a folder of this test."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rbd_control"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile both kernels once; their files depend on no place."""
    place = tmp_path_factory.mktemp("pristine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "CACHE_DIR", str(place))
        assert loads(place) == 0
    return place / "rbd_control"


@pytest.fixture
def warm(folder: Path, pristine: Path) -> Path:
    """Fill the folder of this test with the code of both kernels."""
    shutil.copytree(pristine, folder)
    return folder


def kernels(tmp_path: Path) -> ModuleType:
    """Import a module of kernels anew, as a further process would."""
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    spec = importlib.util.spec_from_file_location("kernels", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(folder: Path, name: str = "double") -> Path:
    (file,) = folder.glob(f"kernels.{name}-*.nbc")
    return file


def loads(tmp_path: Path) -> int:
    """Run both kernels anew; return how many came from the disk."""
    module = kernels(tmp_path)
    assert module.double(1.0) == 2.0
    assert module.triple(1.0) == 3.0
    return sum(sum(k.stats.cache_hits.values()) for k in (module.double, module.triple))


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda c: b"",
    "header alone": lambda c: c[:HEADER],
    "half": lambda c: c[: len(c) // 2],
    "one byte more": lambda c: c + b"\0",
    "zeros behind a whole block": lambda c: c[:4096] + bytes(len(c) - 4096),
    "another pickle": lambda c: pickle.dumps({"a": 1}),
    "header of an older layout": lambda c: flipped(c, len(MAGIC) - 2),
    "key": lambda c: flipped(c, len(MAGIC)),
    "digest": lambda c: flipped(c, HEADER - 1),
    "last byte of the code": lambda c: flipped(c, len(c) - 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_replaced(
    damage: Callable[[bytes], bytes],
    tmp_path: Path,
    warm: Path,
    use: CacheUse,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Where the package launch is imported, loggers do not propagate to the root that caplog hears.
    log = logging.getLogger(kernel_cache.__name__)
    monkeypatch.setattr(log, "propagate", True)
    file = stored(warm)
    file.write_bytes(damage(file.read_bytes()))
    assert loads(tmp_path) == 1
    assert use.discarded == [file]
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert str(file) in caplog.text
    assert loads(tmp_path) == 2


# In processes of their own -----------------------------------------------------------------------


class Package:
    """A package of kernels in a folder, run in separate processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "kept").mkdir(parents=True)
        (folder / "kept" / "__init__.py").touch()
        (folder / "kept" / "kernels.py").write_text(KERNELS)

    def run(
        self, preexec_fn: Callable[[], None] | None = None, **environment: str
    ) -> tuple[list[str], list[str]]:
        """Run both kernels; return what was printed and the lines on stderr."""
        inherited = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
        own = {
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": "",
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        ended = subprocess.run(
            [sys.executable, "-c", RUN],
            env=inherited | own | environment,
            capture_output=True,
            text=True,
            preexec_fn=preexec_fn,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.split(), ended.stderr.splitlines()


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    package = Package(tmp_path / "workspace")
    yield package
    for path in package.folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


COLD, WARM = ["2.0", "3.0", "0", "0"], ["2.0", "3.0", "1", "0"]


def test_a_warm_cache_is_used_where_nothing_can_be_written(package: Package) -> None:
    assert package.run() == (COLD, [])
    for path in (package.folder / "kept" / "__pycache__", package.folder / "kept", package.folder):
        path.chmod(0o555)
    assert package.run(unprivileged()) == (WARM, [])


def test_a_full_disk_is_one_warning(package: Package) -> None:
    def limit_files() -> None:
        """Files end at 1000 bytes, in the middle of a write as on a disk that is full."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    printed, (warning,) = package.run(limit_files)
    assert printed == COLD
    assert "File too large" in warning
    assert not list(package.folder.rglob("*.nbc"))
    assert not list(package.folder.rglob("*.tmp"))


def test_neither_home_nor_writable_sources(package: Package) -> None:
    (package.folder / "kept").chmod(0o555)
    printed, (warning,) = package.run(unprivileged(), HOME="/dev/null")
    assert printed == COLD
    assert "cannot keep" in warning


KILLED = """
import os, random, signal, sys, time
import numba
import numpy as np
from rbd_control.dynamics import compiled
from rbd_control.dynamics.kernel_cache import use

def make(k):
    @compiled.compiled
    def scaled(x):
        total = 0.0
        for i in range(k):
            total += x[i]
        return k * total
    return scaled

def check(kernels):
    for k in range(1, kernels + 1):
        assert make(k)(np.ones(k)) == k * k

# The first compilation imports half of numba, which the children then need not.
numba.njit(lambda x: sum(x))(np.ones(1))
chance = random.Random(int(sys.argv[1]))
cache = os.path.join(os.environ["NUMBA_CACHE_DIR"], "rbd_control")
os.makedirs(cache)
for k in range(12):
    child = os.fork()
    if child == 0:
        check(16)
        time.sleep(60.0)
    # One kernel more is there each time, and the child is at the next.
    while len(os.listdir(cache)) <= k:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0.0, 0.08))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
check(16)
print(len(use.loaded), len(use.discarded), len(use.refused))
"""


def test_killed_while_it_compiles(tmp_path: Path) -> None:
    """SIGKILL at random moments of a cold start: a later one finds whole files or none."""
    (tmp_path / "killed.py").write_text(KILLED)
    ended = subprocess.run(
        [sys.executable, "killed.py", "7"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["1", "0", "0"]
    assert ended.stderr == ""
