"""Start of nodes and commands: compilation, signals, standard streams, launch files."""
