"""Start of nodes and commands: ahead-of-time compilation, signals, standard streams."""
