"""The touched link, from the frame that a force estimate of the contact detector names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.wording import shortened

LONGEST = 80
"""Number of characters of a frame's name that a message shows."""

SEPARATORS = ("/", "_")
"""Last characters of the prefixes that are recognized."""


def link_of_frame(frame: str, links: Collection[str], prefix: str) -> str:
    """Return the link that a frame on TF belongs to, or an empty text if it belongs to no link.

    A detector may have another ``frame_prefix`` than the controller. Therefore a frame that ends
    with the name of a link, after a slash or an underscore, belongs to that link; if several links
    match, to the link with the longest name.

    Args:
        frame: ``header.frame_id`` of the force estimate.
        links: the links of the arm.
        prefix: the parameter ``frame_prefix`` of the controller.
    """
    own = frame.removeprefix(prefix)
    if own in links:
        return own
    ends = [link for link in links if any(frame.endswith(each + link) for each in SEPARATORS)]
    return max(ends, key=len, default="")


class TouchedLink:
    """Finds the link of a force estimate, and logs once if ``frame_prefix`` does not fit.

    Args:
        node: the node, for its log.
    """

    def __init__(self, node: ManagedNode[Any]) -> None:
        self._node = node
        self._frame: str | None = None
        self._link = self._trouble = ""
        self._told: set[bool] = set()

    def forget(self) -> None:
        """Forget the last frame and the logged problems, because links or prefix may change."""
        self._frame, self._link, self._trouble = None, "", ""
        self._told.clear()

    def of(self, frame: str, links: Collection[str], prefix: str) -> str:
        """Return the link that a frame belongs to, or an empty text if it belongs to no link.

        Args:
            frame: ``header.frame_id`` of the force estimate.
            links: the links of the arm.
            prefix: the parameter ``frame_prefix``.
        """
        if frame != self._frame:  # up to 1,000 estimates a second name the same frame
            self._frame, self._link = frame, link_of_frame(frame, links, prefix)
            self._look(frame, prefix)
        return self._link

    def report(self, status: Status) -> None:
        """Add a warning to the diagnostics if the last frame does not fit ``frame_prefix``."""
        if self._trouble:
            status.raise_to(WARN, self._trouble)

    def _look(self, frame: str, prefix: str) -> None:
        """Set the warning for the diagnostics; log each kind of problem once.

        Any node may publish any number of frames.
        """
        shown = shortened(frame, LONGEST)
        if self._link and frame == prefix + self._link:
            self._trouble = ""
            return
        if self._link:
            other = shortened(frame.removesuffix(self._link), LONGEST)
            self._trouble = (
                f"the force estimate is in frame {shown!r}, taken for link {self._link}: set "
                f"frame_prefix to {other!r}, as the detector has it"
            )
        else:
            self._trouble = (
                f"the force estimate is in frame {shown!r}, which is no link of this arm with "
                f"frame_prefix {prefix!r}: it is ignored; give both nodes the same description "
                f"and frame_prefix"
            )
        found = bool(self._link)
        if found not in self._told:
            self._told.add(found)
            self._node.get_logger().warning(self._trouble)
