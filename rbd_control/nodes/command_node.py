"""A node without lifecycle, for the ``rbd-control`` commands that publish messages."""

from __future__ import annotations

from collections.abc import Callable

from rbd_control.nodes.publications import PublishingNode, Refusals


class CommandNode(PublishingNode):
    """A node whose publications raise no exception when the middleware refuses them.

    Refused messages are lost and counted in ``refusals``, a
    :class:`~rbd_control.nodes.publications.Refusals`; its method ``log`` calls ``warn``.

    Args:
        name: name of the node.
        warn: writes one line about refused messages.
        namespace: namespace of the node; None for the default namespace.
    """

    def __init__(
        self, name: str, warn: Callable[[str], None], *, namespace: str | None = None
    ) -> None:
        self.refusals = Refusals(warn)
        super().__init__(name, namespace=namespace)
