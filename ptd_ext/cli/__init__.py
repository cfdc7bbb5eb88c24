"""The command `ptd-ext`."""

import argparse
import importlib
import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from ptd_ext.utils.command_parser import CommandParser
from ptd_ext.utils.extras import optional_packages

DESCRIPTION = "Learning from labels that are wrong in ways that depend on the instance."
EXAMPLES = """\
examples:
  ptd-ext labels data.csv --label species    find wrong labels and suggest the right ones
  ptd-ext labels photos/                     the same for a folder of images for each class
  ptd-ext review data-labels                 review them, with decisions written to disk
  ptd-ext train data.csv --label species     train on your data
  ptd-ext train             PTD and cross entropy on noisy digits, in a few seconds
  ptd-ext compare --methods CE Forward PTD-F --seeds 3
  ptd-ext reproduce fashion_mnist --seeds 5 --rates 10 20 30 40 50 --preset fast
  ptd-ext noise --dataset fashion_mnist --rate 0.3 --out noise.safetensors
  ptd-ext info --json       the build and the CPU kernels that this machine uses
  ptd-ext selftest          check and time every operator on this machine, including its GPU
"""

# Command → its module and its help. A module is imported only when its command runs, so that --help
# is instant and the losses do not need the dependencies of training.
COMMANDS = {
    "labels": ("ptd_ext.cli.labels", "find wrong labels in your data"),
    "review": ("ptd_ext.cli.review", "review labels in a browser and save the decisions"),
    "train": ("ptd_ext.cli.train", "train one method on noisy labels"),
    "compare": ("ptd_ext.cli.compare", "train several methods on the same data"),
    "reproduce": ("ptd_ext.cli.reproduce", "reproduce a table of the paper"),
    "noise": ("ptd_ext.cli.noise", "write noisy labels to a file"),
    "info": ("ptd_ext.cli.info", "show the build, the kernels in use and the data sets"),
    "selftest": ("ptd_ext.cli.selftest", "check and time every operator on this machine"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that the first argument names; print the help if there is none."""
    parser = CommandParser(prog="ptd-ext", description=DESCRIPTION, epilog=EXAMPLES)
    # The parsers of the commands themselves are in their modules.
    commands = parser.add_subparsers(
        dest="command", metavar="command", parser_class=argparse.ArgumentParser
    )
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, add_help=False, help=text)
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        parser.error(_nearest_command(argv))
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command is None:
        parser.print_help()
        return
    try:
        with optional_packages(f"ptd-ext {arguments.command}"):
            command = importlib.import_module(COMMANDS[arguments.command][0])
    except ModuleNotFoundError as error:
        parser.exit(2, f"{error}\n")
    command.main(rest)


def _nearest_command(argv: Sequence[str]) -> str:
    """The error message for a command that does not exist."""
    first, *rest = argv
    if Path(first).exists():
        return (
            f"the first argument must be a command; {first!r} is a file or folder. Did you mean "
            f"`{shlex.join(['ptd-ext', 'labels', *argv])}`?"
        )
    message = f"the command must be one of {', '.join(COMMANDS)}; got {first!r}."
    for near in get_close_matches(first, COMMANDS, 1):
        message += f" Did you mean `{shlex.join(['ptd-ext', near, *rest])}`?"
    return message
