"""Digests by which a run finds recordings already processed with the same arguments."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rbd_control import __version__
from rbd_control.fleet.jobs import CalibrateJob, ReplayJob
from rbd_control.playback.configuration import described_arm
from rbd_control.robot.collision_shapes import mesh_addresses
from rbd_control.robot.robot import description_text
from rbd_control.robot.surface import mesh_files


def job_keys(jobs: Iterable[ReplayJob | CalibrateJob]) -> list[str]:
    """Return for each job a SHA-256 digest, in hexadecimal, of what its result depends on.

    The digest changes with the version of the package, the arguments, the content of the robot
    description and of the parameter file, and with the size and the modification time of each file
    of the recording and of each mesh file of the collision geometry. It also changes when the
    package trimesh, which reads most mesh files, is installed.

    Raises:
        RbdControlError: naming the description or the parameter file, if it cannot be read.
    """
    digests: dict[tuple[str, Path | None], str] = {}
    keys = []
    for job in jobs:
        files = (job.source.urdf, job.source.config)
        if files not in digests:
            digests[files] = _arm_digest(*files)
        keys.append(_key(job, digests[files]))
    return keys


def _key(job: ReplayJob | CalibrateJob, arm: str) -> str:
    source = job.source
    content = {
        "version": __version__,
        "kind": type(job).__name__,
        "job": asdict(replace(job, source=replace(source, urdf="", config=None))),
        "arm": arm,
        "files": list(_files(source.recording)),
    }
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _arm_digest(urdf: str, config: Path | None) -> str:
    """Return a digest of a robot description, a parameter file, and the state of the mesh files."""
    arm, _, values = described_arm(urdf, config)
    text = description_text(arm)
    paths = map(mesh_files(arm).find, mesh_addresses(text))
    meshes = [(str(path), *_state(path)) for path in paths if path]
    reads_meshes = find_spec("trimesh") is not None
    parts = (text, repr(arm), repr(sorted(values.items())), repr(meshes), repr(reads_meshes))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _files(recording: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size [bytes] and modification time [ns] of each file of a recording."""
    files = sorted(recording.rglob("*")) if recording.is_dir() else [recording]
    for file in files:
        if state := _state(file):
            yield str(file.relative_to(recording)), *state


def _state(file: Path) -> tuple[int, int] | tuple[()]:
    """Return size [bytes] and modification time [ns] of a file; an empty tuple without access."""
    try:
        status = os.stat(file)
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else str(value)
