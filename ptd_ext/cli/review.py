"""`ptd-ext review`: serves the page of a folder and writes its decisions to disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptd_ext.cli.errors import report_errors
from ptd_ext.cli.results_folder import REPORT
from ptd_ext.label_issues.review.server import DECISIONS, ReviewServer
from ptd_ext.utils.command_parser import CommandParser

DESCRIPTION = """\
Review labels in a browser, with every decision written to decisions.csv in the folder at once. The
server listens on 127.0.0.1 only, at an address that holds a secret; Ctrl-C stops it."""

EXAMPLES = """\
examples:
  ptd-ext labels data.csv --label species && ptd-ext review data-labels
  ptd-ext review data-labels --port 8765       the same port every time, for a tunnel by ssh -L"""

_MAX_PORT = 65535


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the arguments, and serve the page until Ctrl-C."""
    parser = CommandParser(
        prog="ptd-ext review",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("folder", type=Path, help="folder of ptd-ext labels, or of a page of LabelIssues.report")
    add("--page", default=REPORT, metavar="NAME", help=f"file name of the page (default: {REPORT})")
    add("--port", type=int, default=0, metavar="N", help="port (default: any that is free)")
    arguments = parser.parse_args(argv)
    with report_errors(parser):
        if not 0 <= arguments.port <= _MAX_PORT:
            raise ValueError(f"--port must be from 0 to {_MAX_PORT}; got {arguments.port}.")
        server = ReviewServer(arguments.folder, arguments.page, arguments.port)
    print(f"open {server.address}\nCtrl-C stops the server.", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    count = len(server.decisions.entries())
    print(f"\n{count:,} decisions in {arguments.folder / DECISIONS}")
