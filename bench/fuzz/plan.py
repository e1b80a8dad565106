"""The plan of a run over the wire: scenes of inputs, each followed by a check that all nodes work.

A scene consists of bursts of inputs of one kind. Each scene has a separate random generator, made
from the seed and the number of the scene, so that a scene can be repeated without the scenes before
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.fuzz import joint_states
from bench.fuzz.arm import Arm
from bench.fuzz.goals import GOALS, goal_burst, goal_channel
from bench.fuzz.inputs import Input, request_input, type_of
from bench.fuzz.joint_states import joint_state_burst
from bench.fuzz.messages import MESSAGES, message_burst
from bench.fuzz.raw import raw_burst
from bench.fuzz.requests import (
    CHANGE_STATE,
    LIFECYCLE,
    PARAMETERS,
    SERVICES,
    Interface,
    lifecycle_burst,
    parameter_burst,
    service_burst,
)

RAW = ", raw bytes"
"""End of the kinds whose messages are damaged byte by byte."""

MIXED = "mixed"
"""Kind of scenes in which inputs of different kinds follow each other."""

CONFIGURATION = "robot descriptions, configured"
"""Kind of scenes in which nodes are configured with fuzzed robot descriptions."""

SHARES: Mapping[str, float] = {
    "joint states": 0.31,
    "joint states" + RAW: 0.10,
    "trajectories": 0.06,
    "trajectories" + RAW: 0.03,
    "verdicts": 0.04,
    "verdicts" + RAW: 0.02,
    "forces": 0.05,
    "forces" + RAW: 0.03,
    "torque commands": 0.06,
    "torque commands" + RAW: 0.03,
    "robot descriptions": 0.005,
    "robot descriptions" + RAW: 0.005,
    CONFIGURATION: 0.01,
    "payloads": 0.005,
    "payloads" + RAW: 0.005,
    "events": 0.005,
    "events" + RAW: 0.005,
    "states of goals": 0.005,
    "states of goals" + RAW: 0.005,
    GOALS: 0.01,
    "clock": 0.02,
    "clock" + RAW: 0.01,
    PARAMETERS: 0.06,
    SERVICES: 0.04,
    LIFECYCLE: 0.01,
    MIXED: 0.08,
}
"""Share of each kind of scene in the inputs of a run."""

CLOCK = ("/clock", "rosgraph_msgs/msg/Clock")

BURSTS = 20
"""Maximum number of bursts of a scene."""

_LONG_BURST, _BURST, _SHORT_BURST = 200, 10, 4
"""Inputs of a burst: of joint states, whose queue is long; by default; of slow inputs."""


@dataclass(frozen=True)
class Topic:
    """A topic with its type, and the nodes under test that subscribe to it."""

    name: str
    type: str
    nodes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Name of the row of the results that counts the inputs of this topic."""
        if self.type == joint_states.TYPE:
            return joint_states.KIND
        return MESSAGES[self.type][0] if self.type in MESSAGES else self.type


@dataclass(frozen=True)
class Scene:
    """Some bursts of one kind at one target.

    Attributes:
        kind: key of :data:`SHARES`.
        number: position in the plan.
        count: number of inputs.
        topic: topic of the inputs; None for requests and mixtures.
        interface: node whose services are called, None for topics and mixtures.
        nodes: nodes that receive the inputs.
    """

    kind: str
    number: int
    count: int
    topic: Topic | None
    interface: Interface | None
    nodes: tuple[str, ...]

    @property
    def simulates_time(self) -> bool:
        """Whether the nodes are to use simulated time."""
        return self.topic is not None and self.topic.name == CLOCK[0]


class Plan:
    """The scenes of a run, which the seed determines.

    Args:
        seed: seed of the run.
        count: total number of inputs.
        topics: all topics that the nodes subscribe to.
        interfaces: services and parameters of all nodes.
        arm: the arm that the nodes run on.
        only: kinds of scenes, keys of :data:`SHARES`; empty: all.

    Attributes:
        scenes: the scenes in their order.
    """

    def __init__(
        self,
        seed: int,
        count: int,
        topics: Sequence[Topic],
        interfaces: Sequence[Interface],
        arm: Arm,
        only: Sequence[str] = (),
    ) -> None:
        self._seed, self._arm = seed, arm
        self._shares = {kind: SHARES[kind] for kind in only or SHARES}
        self._topics, self._interfaces = tuple(topics), tuple(interfaces)
        self.scenes: tuple[Scene, ...] = tuple(self._laid_out(count))

    def _laid_out(self, count: int) -> list[Scene]:
        drafts: list[Scene] = []
        found = {kind: self._targets(kind) for kind in self._shares}
        total = sum(self._shares[kind] for kind, targets in found.items() if targets)
        for kind, targets in found.items():
            share = self._shares[kind] / total
            for k, (topic, interface, nodes) in enumerate(targets):
                left = round(share * count * (k + 1) / len(targets))
                left -= round(share * count * k / len(targets))
                while left > 0:
                    size = min(left, BURSTS * _burst_size(kind))
                    drafts.append(Scene(kind, 0, size, topic, interface, nodes))
                    left -= size
        Random(f"{self._seed} order").shuffle(drafts)
        return [
            Scene(each.kind, number, *(each.count, each.topic, each.interface, each.nodes))
            for number, each in enumerate(drafts)
        ]

    def _targets(self, kind: str) -> list[tuple[Topic | None, Interface | None, tuple[str, ...]]]:
        """Return all targets for inputs of a kind."""
        if kind == MIXED:
            nodes = tuple(each.node for each in self._interfaces)
            return [(None, None, nodes)] if nodes else []
        if kind in (PARAMETERS, SERVICES, LIFECYCLE):
            return [(None, each, (each.node,)) for each in self._interfaces]
        if kind == GOALS:
            servers = [each for each in self._interfaces if goal_channel(each)]
            return [(None, each, (each.node,)) for each in servers]
        plain = "robot descriptions" if kind == CONFIGURATION else kind.removesuffix(RAW)
        return [(topic, None, topic.nodes) for topic in self._topics if topic.kind == plain]

    def bursts(self, scene: Scene) -> Iterator[list[Input]]:
        """Yield the inputs of a scene in bursts, the same in every call."""
        random = Random(f"{self._seed} {scene.number} {scene.kind}")
        left = scene.count
        while left > 0:
            burst = self._burst(random, scene, min(left, _burst_size(scene.kind)))
            yield burst
            left -= max(len(burst), 1)

    def _burst(self, random: Random, scene: Scene, count: int) -> list[Input]:
        if scene.kind == MIXED:
            return self._mixed(random, count)
        if scene.kind == GOALS:
            assert scene.interface is not None
            return goal_burst(random, self._arm, scene.interface, count)
        if scene.interface is not None:
            make = {
                PARAMETERS: parameter_burst,
                SERVICES: service_burst,
                LIFECYCLE: lifecycle_burst,
            }[scene.kind]
            return make(random, scene.interface, count)
        assert scene.topic is not None
        if scene.kind == CONFIGURATION:
            return self._configurations(random, scene, count)
        return self._messages(random, scene.topic, scene.kind.endswith(RAW), count)

    def _messages(self, random: Random, topic: Topic, raw: bool, count: int) -> list[Input]:
        sound = self._well_formed(random, topic, 5 if raw else count)
        if not raw:
            return sound
        return raw_burst(random, topic.kind + RAW, topic.name, topic.type, sound, count)

    def _well_formed(self, random: Random, topic: Topic, count: int) -> list[Input]:
        if topic.type == joint_states.TYPE:
            return joint_state_burst(random, self._arm, topic.name, count)
        if topic.type in MESSAGES:
            return message_burst(random, self._arm, topic.name, topic.type, count)
        return []

    def _configurations(self, random: Random, scene: Scene, count: int) -> list[Input]:
        """Return descriptions, each followed by an order to configure every node with it."""
        assert scene.topic is not None
        burst: list[Input] = []
        for description in self._well_formed(random, scene.topic, max(count // 3, 1)):
            burst.append(description)
            for transition in (1, 2):  # configure, clean up
                for interface in self._interfaces:
                    if interface.node in scene.nodes:
                        burst.append(transition_input(interface, transition, CONFIGURATION))
        return burst

    def _mixed(self, random: Random, count: int) -> list[Input]:
        """Return a few inputs of any kind in any order."""
        burst: list[Input] = []
        while len(burst) < count:
            some = random.randint(1, 4)
            if random.random() < 0.6:
                topic = random.choice(self._topics)
                raw = random.random() < 0.2 or not (
                    topic.type in MESSAGES or topic.type == joint_states.TYPE
                )
                burst += self._messages(random, topic, raw, some)
            else:
                make = random.choice((parameter_burst, service_burst, service_burst))
                burst += make(random, random.choice(self._interfaces), some)
        return burst


def transition_input(interface: Interface, transition: int, kind: str) -> Input:
    """Return the request for a lifecycle transition of a node.

    Args:
        interface: services of the node.
        transition: number of the transition, as in ``lifecycle_msgs/msg/Transition``.
        kind: name of the row of the results that counts the request.
    """
    channel = next(name for name, type_ in interface.services.items() if type_ == CHANGE_STATE)
    request = type_of(CHANGE_STATE).Request()
    request.transition.id = transition
    return request_input(kind, channel, CHANGE_STATE, request)


def _burst_size(kind: str) -> int:
    if kind.startswith("joint states"):
        return _LONG_BURST
    return _SHORT_BURST if kind in (LIFECYCLE, CONFIGURATION) else _BURST
