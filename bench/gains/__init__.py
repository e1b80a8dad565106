"""Are identified drive gains as exact as they claim? A simulated UR10e in motor currents."""
