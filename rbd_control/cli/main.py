"""The command ``rbd-control``: it assembles the sub-commands and runs one of them.

:mod:`rbd_control.cli.commands` has the arguments of the sub-commands,
:mod:`rbd_control.cli.exit_codes` the exit codes.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from rbd_control import __version__
from rbd_control.cli.arguments import Commands, add_debug
from rbd_control.cli.commands import COMMANDS
from rbd_control.cli.exit_codes import INTERRUPTED, run_command
from rbd_control.files.output_files import remove_unfinished
from rbd_control.files.xacro_files import joined
from rbd_control.startup.prompt_end import PromptEnd, end_now
from rbd_control.startup.standard_streams import (
    ensure_standard_streams,
    release_standard_streams,
    use_one_thread,
)

_EXIT_CODES = (
    "exit codes: 0 done, 1 done but without a reliable result, 2 an input is wrong or an output "
    "cannot be written, 3 an internal error, 130 interrupted"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code, see :mod:`rbd_control.cli.exit_codes`.

    SIGINT, SIGTERM and SIGHUP end the process at once with code 130. They raise no exception,
    because the compiler may discard an exception that a signal handler raises, or crash. Commands
    that need a cleanup handle SIGINT and SIGTERM themselves.

    Args:
        argv: arguments after the name of the program; None for those of this process.

    Raises:
        SystemExit: from ``argparse``, with code 0 for ``--help`` and ``--version``, and 2 for
            arguments that cannot be parsed.
    """
    ensure_standard_streams()
    use_one_thread()
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show must not cause an error.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    arguments = _parser().parse_args(joined(sys.argv[1:] if argv is None else argv))
    # Python's last garbage collections would visit all objects of numba, for half a second.
    atexit.register(gc.freeze)
    with PromptEnd(INTERRUPTED, _end):
        code = run_command(lambda: int(arguments.run(arguments)), debug=arguments.debug)
    release_standard_streams()
    return code


def _end(_number: int, _frame: object) -> NoReturn:
    """Remove incomplete and temporary files, and end the process; handler of the signals."""
    remove_unfinished()
    end_now(INTERRUPTED)


class _Command(argparse.ArgumentParser):
    """The parser of a sub-command; every error shows the usage of this sub-command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse the arguments; refuse unknown ones, for which the main parser has another usage."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unknown option, or one argument too many: {' '.join(unknown)}")
        return known, unknown


def _parser() -> argparse.ArgumentParser:
    """Return the parser with all sub-commands."""
    parser = argparse.ArgumentParser(
        prog="rbd-control",
        description="Contact detection without force sensors and passive control of robot arms.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"rbd-control {__version__}")
    add_debug(parser, default=False)
    commands: Commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Command
    )
    for add_command in COMMANDS:
        add_command(commands)
    for each in commands.choices.values():
        add_debug(each, default=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
