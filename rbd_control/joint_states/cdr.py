"""Decoding of serialized ``sensor_msgs/JointState`` messages without ROS, singly or in blocks.

They are CDR, as in ROS 2, or of ROS 1, where ``header.seq`` takes the place of the header of CDR,
and there are neither padding nor terminators of strings.

Messages of one layout (the same frame, names and lengths) have the same size and, except for the
stamp, the numbers and the padding, the same bytes. A layout is parsed from the bytes of the first
such message, with bounds checks, and compared with what another decoder returns for that message:
rclpy in the nodes, rosbags for recordings. Only when both agree to the last bit are further
messages read by the layout. The other decoder reads all other messages, such as big-endian ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from rbd_control.joint_states.messages import JointBlock, JointMessage

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]

HEAD = 4
"""Size of the encapsulation header, from whose end alignment counts [bytes]."""

LITTLE_ENDIAN = b"\x00\x01"
"""First bytes of the encapsulation header of plain little-endian CDR."""

STAMP = Struct("<iI")
"""Seconds and nanoseconds of the stamp, which follow the encapsulation header."""

_FOREIGN_STAMP = Struct(">iI")

TRAILING = 15
"""Largest accepted number of bytes after the content; rclpy also aligns empty arrays."""

_SIZES = 16
"""Maximum number of message sizes whose layouts a reader stores."""

_LAYOUTS = 4
"""Maximum number of layouts of one size that a reader stores."""

Decode = Callable[[float, bytes], JointMessage]
"""Returns a message for its time of receipt [s] and its bytes, or raises for damaged bytes."""


def stamp_of(raw: bytes) -> tuple[int, int]:
    """Return the stamp of a serialized joint state as seconds and nanoseconds.

    Args:
        raw: the whole message with its encapsulation header, of either byte order.

    Raises:
        struct.error: for fewer bytes than header and stamp take.
        IndexError: for fewer than two bytes.
    """
    form = STAMP if raw[1] & 1 else _FOREIGN_STAMP
    sec, nanosec = form.unpack_from(raw, HEAD)
    return sec, nanosec


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets of the names and numbers in a serialized joint state.

    A message has this layout if it is as long as the message from which the layout was made, and
    its bytes that ``mask`` selects are those of ``pattern``.

    Attributes:
        names: joint names.
        places: for position, velocity and effort, offset of the first number [bytes] and their
            count.
        size: size of header and content, without trailing padding [bytes].
        fixed: (m,) 0xFF for each byte that all messages of this layout share, 0 for the others.
        mask: ``fixed`` as a number, the first byte the least significant.
        pattern: the shared bytes as such a number.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    size: int
    fixed: Bytes
    mask: int
    pattern: int

    @classmethod
    def of(cls, raw: bytes, kind: type[CdrScan]) -> Layout | None:
        """Return the layout of a serialized message; None if it cannot be read by a layout.

        This is a message that is damaged, cut short, not little-endian, or followed by more than
        :data:`TRAILING` bytes.

        Args:
            raw: its bytes.
            kind: parser of its serialization.
        """
        if len(raw) < HEAD + STAMP.size:
            return None
        try:
            scan = kind(raw)
            scan.text()
            names = tuple([scan.text() for _ in range(scan.count())])
            places = (scan.numbers(), scan.numbers(), scan.numbers())
        except ValueError:
            return None
        if len(raw) > scan.end + TRAILING:
            return None
        mask = int.from_bytes(scan.fixed, "little")
        pattern = int.from_bytes(raw, "little") & mask
        fixed = np.frombuffer(bytes(scan.fixed), np.uint8)
        return cls(names, places, scan.end, fixed, mask, pattern)

    def message(self, raw: bytes, receipt: float) -> JointMessage:
        """Return a message of this layout; its arrays are views of the bytes.

        Args:
            raw: its bytes; whether they have this layout is not checked.
            receipt: time of receipt [s].
        """
        sec, nanosec = STAMP.unpack_from(raw, HEAD)
        (p, np_), (v, nv), (e, ne) = self.places
        return JointMessage(
            sec + 1e-9 * nanosec,
            receipt,
            self.names,
            np.frombuffer(raw, np.float64, np_, p),
            np.frombuffer(raw, np.float64, nv, v),
            np.frombuffer(raw, np.float64, ne, e),
        )

    def block(self, rows: Bytes, receipts: Array) -> JointBlock:
        """Return k messages of this layout.

        Args:
            rows: their bytes, (k, m) for messages of m bytes; not checked.
            receipts: times of receipt, (k,) [s].
        """
        sec, nanosec = _columns(rows, HEAD, 1, "<i4"), _columns(rows, HEAD + 4, 1, "<u4")
        stamp = sec[:, 0] + 1e-9 * nanosec[:, 0]
        values = [_columns(rows, at, count, "<f8") for at, count in self.places]
        return JointBlock(stamp, receipts, self.names, *values)


def decode_and_learn(
    raw: bytes, receipt: float, decode: Decode, kind: type[CdrScan]
) -> tuple[JointMessage, Layout | None]:
    """Decode a message, and find its layout for later messages of the same kind.

    Args:
        raw: the bytes of the message.
        receipt: time of receipt [s].
        decode: the decoder of the middleware or of rosbags.
        kind: parser of the serialization.

    Returns:
        The message from ``decode``, and the layout of its fields. The layout is None if these bytes
        cannot be read by a layout, or if reading by it gives another message than ``decode``.

    Raises:
        Exception: what ``decode`` raises for damaged bytes.
    """
    decoded, layout = decode(receipt, raw), Layout.of(raw, kind)
    if layout is None or not _is_same(layout.message(raw, receipt), decoded):
        return decoded, None
    return decoded, layout


class JointStateReader:
    """Decodes serialized joint states one by one, fast for layouts that it has met before.

    Args:
        decode: decoder of the middleware, for the first message of each layout and for all
            messages that cannot be read by a layout.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._known: dict[int, tuple[Layout, ...]] = {}

    def read(self, raw: bytes, receipt: float) -> JointMessage:
        """Return the message that was serialized to ``raw`` and received at ``receipt`` [s].

        Raises:
            Exception: what ``decode`` raises for damaged bytes.
        """
        known = self._known.get(len(raw), ())
        if known:
            number = int.from_bytes(raw, "little")
            for layout in known:
                if number & layout.mask == layout.pattern:
                    return layout.message(raw, receipt)
        message, learned = decode_and_learn(raw, receipt, self._decode, CdrScan)
        if learned is not None:
            if len(self._known) >= _SIZES and not known:
                self._known.clear()
            self._known[len(raw)] = (learned, *known[: _LAYOUTS - 1])
        return message


class CdrScan:
    """Parses a message in little-endian CDR from the end of its stamp.

    Constructor and methods raise a ValueError if the content is not a joint state or is longer than
    the bytes.

    Attributes:
        end: offset of the next byte to read [bytes].
        fixed: 0xFF for each byte that all messages of this layout share.
    """

    TERMINATOR = b"\0"
    """End of each string, which its length includes."""

    ALIGNED = True
    """Whether a value begins at a multiple of its size."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.end = HEAD + STAMP.size
        self.fixed = bytearray(len(raw))
        self._begin()

    def _begin(self) -> None:
        """Check the header."""
        if self._raw[:2] != LITTLE_ENDIAN:
            raise ValueError("not little-endian CDR")
        self.fixed[:HEAD] = b"\xff" * HEAD

    def count(self) -> int:
        """Read a number of elements."""
        return int.from_bytes(self._share(4, 4), "little")

    def text(self) -> str:
        """Read a string."""
        text, end = self._share(self.count(), 1), self.TERMINATOR
        content = text.removesuffix(end)
        if text != content + end or b"\0" in content:
            raise ValueError("a string whose length does not match its terminator")
        return content.decode()

    def numbers(self) -> tuple[int, int]:
        """Read an array of numbers; return the offset of its first number, and their count."""
        count = self.count()
        if not count:
            return self.end, 0
        return self._skip(8 * count, 8), count

    def _share(self, size: int, alignment: int) -> bytes:
        start = self._skip(size, alignment)
        self.fixed[start : self.end] = b"\xff" * size
        return self._raw[start : self.end]

    def _skip(self, size: int, alignment: int) -> int:
        start = self.end + ((HEAD - self.end) % alignment if self.ALIGNED else 0)
        if start + size > len(self._raw):
            raise ValueError(f"{start + size} bytes are needed but there are {len(self._raw)}")
        self.end = start + size
        return start


class Ros1Scan(CdrScan):
    """Parses a message of ROS 1 from the end of its stamp."""

    TERMINATOR = b""
    ALIGNED = False

    def _begin(self) -> None:
        """Accept each ``header.seq``."""


def _is_same(ours: JointMessage, theirs: JointMessage) -> bool:
    """Return whether two messages are equal to the last bit, NaN included."""
    return (ours.stamp, tuple(ours.name)) == (theirs.stamp, tuple(theirs.name)) and all(
        np.asarray(a, float).tobytes() == np.asarray(b, float).tobytes()
        for a, b in zip(ours[3:], theirs[3:], strict=True)
    )


def _columns(rows: Bytes, start: int, count: int, kind: str) -> Array:
    """Return ``count`` numbers from byte ``start`` of each row, (k, count)."""
    size = np.dtype(kind).itemsize
    # One copy only: the view of the bytes is neither aligned nor contiguous.
    return rows[:, start : start + size * count].view(kind).astype(float)
