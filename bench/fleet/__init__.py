"""Speed of a fleet of recordings, and what is lost when workers and recordings fail."""
