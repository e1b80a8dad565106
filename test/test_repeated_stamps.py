"""The time line of a replay where the stamps of a recording repeat after a jump of the clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from damage import sound

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.joint_states import JUMP_MESSAGES, JointBlock
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording
from rbd_control.playback.replay import replay

MODEL = Model.from_urdf(sound.URDF)
PERIOD = 1.0 / sound.RATE
LENGTH, PAUSE = 1.2, 3.0
"""Duration of a pass, and pause before the next pass [s]."""


def looped(stamp_shift: float, size: int, passes: int = 3) -> Recording:
    """Return a recording of equal passes, read in blocks of ``size`` messages.

    Args:
        stamp_shift: stamp minus time of receipt in the first pass [s]; the stamps start again in
            each pass. The last stamp of each pass is zero, which stands for no stamp.
        size: number of messages in a block.
        passes: number of passes.
    """
    motion = sound.swing(LENGTH)
    receipt = np.concatenate([motion.t + k * (LENGTH + PAUSE) for k in range(passes)])
    stamp = np.tile(motion.t + stamp_shift, passes)
    stamp[motion.t.size - 1 :: motion.t.size] = 0.0
    values = [np.tile(x, (passes, 1)) for x in (motion.q, motion.v, motion.tau)]
    whole = JointBlock(stamp, receipt, sound.JOINTS, *values)
    count = stamp.size
    parts = [
        [Part(np.arange(min(size, count - k)), whole.part(k, min(k + size, count)))]
        for k in range(0, count, size)
    ]
    return Recording(
        Path("made"), "/joint_states", sound.JOINTS, count, None, lambda _: iter(parts)
    )


@pytest.mark.parametrize("size", [7])
@pytest.mark.parametrize("stamp_shift", [0.0, 100.0 - sound.START], ids=["wall", "simulated"])
def test_each_pass_follows_on_the_clock_of_the_recorder(stamp_shift: float, size: int) -> None:
    times: list[np.ndarray] = []
    result = replay(
        looped(stamp_shift, size),
        MODEL,
        DetectorParameters(),
        watch=lambda t, _samples, _found: times.append(t),
    )
    assert (np.diff(np.concatenate(times)) > 0.0).all()
    late = (JUMP_MESSAGES - 1) * PERIOD
    begins = [k * (LENGTH + PAUSE) + late for k in (1, 2)]
    assert [jump.time for jump in result.clock_jumps] == pytest.approx(begins, abs=1e-6)
    back = LENGTH + PAUSE
    assert [jump.back for jump in result.clock_jumps] == pytest.approx([back, back], abs=1e-6)
    assert result.duration == pytest.approx(2.0 * back + LENGTH - PERIOD, abs=1e-6)
