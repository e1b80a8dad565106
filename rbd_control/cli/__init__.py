"""The command ``rbd-control``: :mod:`~rbd_control.cli.main` selects and runs a sub-command."""
