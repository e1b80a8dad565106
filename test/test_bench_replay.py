"""``python -m bench.replay`` measures the same recording in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.replay.__main__ import measure
from bench.replay.recordings import KINDS, write
from rbd_control.joint_states import JointStateIntake
from rbd_control.playback import read_recording


def test_formats_hold_the_same_and_are_measured(tmp_path: Path) -> None:
    paths = [write(tmp_path, kind, 3.0) for kind in KINDS]
    samples = []
    for path in paths:
        recording = read_recording(path)
        blocks = list(recording.sample_blocks(JointStateIntake(recording.joint_names)))
        columns = [(b.stamp[:, None], b.q, b.v, b.tau) for b in blocks]
        samples.append(np.concatenate([np.hstack(c) for c in columns]))  # type: ignore[arg-type]
    assert samples[0].shape == (3000, 22)
    np.testing.assert_array_equal(samples[0], samples[1])
    # CSV holds nine digits.
    np.testing.assert_allclose(samples[2], samples[0], rtol=1e-8, atol=1e-9)
    outcome = measure(paths[2])
    assert outcome["samples"] == 3000
    assert min(*outcome["seconds"], *outcome["cpu"], outcome["memory"]) > 0.0
