"""The arguments of each sub-command, one file per command.

Each file has a function ``add_command``. It adds the arguments of the command to the parser, and
stores the function that runs the command as ``run`` in the parsed arguments; this function receives
them and returns the exit code. The files avoid slow imports, so that ``--help`` answers at once; a
command imports the modules that it needs when it runs.
"""
