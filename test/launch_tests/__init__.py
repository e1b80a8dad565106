"""Launch tests: the scenarios of the system tests, with nodes that launch files bring up."""
