"""The arm that ships with the package."""

from importlib.resources import files


def arm7_urdf() -> str:
    """Return the description of the 7-joint arm that ships with the package, as URDF text."""
    return files("rbd_control.robot").joinpath("arm7.urdf").read_text(encoding="utf-8")
