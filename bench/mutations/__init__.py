"""Mutation test: do the tests find known defects that are put into the package?"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test"))  # for ``stateful``
