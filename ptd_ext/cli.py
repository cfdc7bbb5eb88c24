"""The command `ptd-ext`."""

import argparse
import importlib
import sys
from collections.abc import Sequence

DESCRIPTION = "Learning from labels that are wrong in ways that depend on the instance."
EXAMPLES = """\
examples:
  ptd-ext labels data.csv --label species    which labels are wrong, and what they should be
  ptd-ext train             PTD against cross entropy on noisy digits, in some seconds
  ptd-ext train --help      every setting, data set and method of a run
  ptd-ext compare --methods CE Forward PTD-F --seeds 3
  ptd-ext reproduce fashion_mnist --seeds 5 --rates 10 20 30 40 50 --preset fast
  ptd-ext noise --dataset fashion_mnist --rate 0.3 --out noise.safetensors
  ptd-ext info --json       what was built and which CPU kernels this machine uses
  ptd-ext selftest          check and time every operator on this machine, on a GPU if it has one
"""

# Command → its module and what it does. A module is imported only when its command runs, so that
# --help is instant and the losses do not need what training needs.
COMMANDS = {
    "labels": ("ptd_ext.label_issues.command", "find the wrong labels of one's own data"),
    "train": ("ptd_ext.train.commands.train", "train one method on noisy labels"),
    "compare": ("ptd_ext.train.commands.compare", "train several methods on the same data"),
    "reproduce": ("ptd_ext.train.reproduce.command", "fill a table of the paper"),
    "noise": ("ptd_ext.train.commands.noise", "make noisy labels and keep them in a file"),
    "info": ("ptd_ext.diagnostics.info", "print what was built and what runs"),
    "selftest": ("ptd_ext.diagnostics.selftest", "check and time every operator here"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Hand the arguments to the subcommand named first."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, add_help=False, help=text)
    arguments, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    importlib.import_module(COMMANDS[arguments.command][0]).main(rest)


if __name__ == "__main__":
    main()
