"""The command `ptd-ext`."""

import argparse
import sys
from collections.abc import Sequence

DESCRIPTION = "Losses for training on labels whose noise depends on the instance."
EXAMPLES = """\
examples:
  ptd-ext demo          train on noisy digits with and without the loss, in under a minute
  ptd-ext demo --help   what the demonstration can vary
  ptd-ext info          what was built and which CPU kernels this machine uses
  ptd-ext info --json   the same for scripts
  ptd-ext selftest      check and time every operator on this machine, on a GPU if it has one
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Hand the arguments to the subcommand named first."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("demo", add_help=False, help="train on noisy digits, with and without")
    commands.add_parser("info", add_help=False, help="print what was built and what runs")
    commands.add_parser("selftest", add_help=False, help="check and time every operator here")
    arguments, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    # Each subcommand parses its own options, and is imported only when it runs: --help is instant.
    if arguments.command == "demo":
        from ptd_ext import demo

        demo.main(rest)
    elif arguments.command == "selftest":
        from ptd_ext import selftest

        selftest.main(rest)
    else:
        from ptd_ext import info

        info.main(rest)


if __name__ == "__main__":
    main()
