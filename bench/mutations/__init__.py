"""Mutation test: known defects of the controller are put back one by one for the state machine."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test"))  # for ``stateful``
