"""Speed of the replay of a fleet, and recordings that are lost when workers or files fail."""
