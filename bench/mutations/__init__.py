"""Mutation test: does the stateful test of the controller find known defects that are put back?"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test"))  # for ``stateful``
