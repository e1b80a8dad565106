"""Known defects of the controller, put back one by one: does the state machine find them?"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test"))  # for ``stateful``
