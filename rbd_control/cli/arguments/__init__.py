"""The arguments of each sub-command, one file per command.

Each file has a function ``add_command``, which adds the arguments and selects the function that
runs the command. The files avoid slow imports, so that ``--help`` answers at once; a command
imports the modules that it needs when it runs.
"""
