"""Serialized messages with damaged bytes, which no ROS publisher would send."""

from __future__ import annotations

from random import Random
from struct import pack_into

from rclpy.serialization import serialize_message

from bench.fuzz.inputs import Input, type_of

ENCAPSULATIONS = (
    b"\0\0\0\0", b"\0\1\0\0", b"\0\2\0\0", b"\0\3\0\0", b"\0\6\0\0", b"\0\7\0\0", b"\0\x0a\0\0",
    b"\1\0\0\0", b"\xff\xff\xff\xff",
)  # fmt: skip
"""Headers of CDR: big-endian, little-endian, parameter lists, later versions, and none of them."""

COUNTS = (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x10000000, 0x00FFFFFF, 1_000_000, 0)
"""Element counts that a message of this size cannot hold."""

FIXED_SIZE = ("std_msgs/msg/Bool", "rosgraph_msgs/msg/Clock")
"""Types of constant size: the middleware refuses to publish more bytes than they have."""

BIG, HUGE = 5_000, 500_000
"""Lengths of long random payloads, and of a few that are longer still [bytes].

The middleware keeps a buffer of the largest received size for every place of a queue; this growth
must not look like a leak.
"""


def damaged(random: Random, sound: bytes) -> bytes:
    """Return a damaged copy of a serialized message, or random bytes; ``random`` chooses how.

    The result has at least one byte: after an empty message Fast DDS delivers nothing more from the
    same publisher.
    """
    choice = random.choice(
        ("cut", "cut", "flip", "flip", "count", "count", "head", "tail", "noise", "tiny", "big")
    )
    data = bytearray(sound)
    if choice == "cut":
        return bytes(data[: random.randrange(1, len(data))])
    if choice == "flip":
        for _ in range(random.choice((1, 2, 4, 16, len(data) // 4 or 1))):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(data)
    if choice == "count" and len(data) >= 8:
        # Counts and lengths are 32-bit numbers aligned to the end of the encapsulation.
        pack_into("<I", data, 4 * random.randrange(1, len(data) // 4), random.choice(COUNTS))
        return bytes(data)
    if choice == "head":
        return random.choice(ENCAPSULATIONS) + bytes(data[4:])
    if choice == "tail":
        return bytes(data) + random.randbytes(random.randrange(1, 64))
    if choice == "tiny":
        return random.choice((b"\0", b"\0\1", b"\0\1\0\0", b"\0\1\0\0\0", random.randbytes(8)))
    if choice == "big":
        most = HUGE if random.random() < 0.02 else BIG
        return random.choice(ENCAPSULATIONS) + random.randbytes(random.randrange(most))
    return random.choice(ENCAPSULATIONS) + random.randbytes(random.randrange(256))


def raw_burst(
    random: Random, kind: str, channel: str, type_name: str, samples: list[Input], count: int
) -> list[Input]:
    """Return damaged messages for a topic.

    Args:
        random: source of all choices.
        kind: name of the row of the results that counts the messages.
        channel, type_name: the topic.
        samples: valid messages to damage; if empty, an empty message is damaged.
        count: number of messages.
    """
    empty = serialize_message(type_of(type_name)())
    burst = []
    for _ in range(count):
        sample = random.choice(samples) if samples else None
        payload = damaged(random, sample.payload if sample else empty)
        if type_name in FIXED_SIZE:
            payload = payload[: len(empty)]
        shift = sample.shift if sample else None
        burst.append(Input(kind, channel, type_name, payload, shift))
    return burst
