"""Parsers of commands: a short help and a complete one, and errors that name the nearest flag."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, NoReturn


class CommandParser(argparse.ArgumentParser):
    """A parser whose ``--help`` shows the usual arguments, and ``--help-all`` all of them.

    Args:
        common: names of the options that ``--help`` shows; None for all.
        options: further arguments of `argparse.ArgumentParser`.
    """

    def __init__(self, *, common: Collection[str] | None = None, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._common = common
        text = argparse.SUPPRESS if common is None else "show all options and exit"
        self.add_argument("--help-all", action=_HelpAll, help=text)

    def format_help(self) -> str:
        """The help with the common options only."""
        if self._common is None:
            return super().format_help()
        always = {"help", "help_all"}
        shown = [
            action
            for action in self._actions
            if not action.option_strings or action.dest in {*self._common, *always}
        ]
        shown.sort(key=lambda action: action.dest in always)
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, shown, ())
        formatter.add_text(self.description)
        formatter.start_section("options")
        formatter.add_arguments(shown)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def format_all(self) -> str:
        """The help with all options, by section."""
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """End with the message, the nearest flag to one that is not known, and without usage."""
        hints = []
        if message.startswith("unrecognized"):
            for flag in re.findall(r"--[\w-]+", message):
                hints += get_close_matches(flag, self._option_string_actions, 1)
        hint = f" Did you mean {' and '.join(hints)}?" if hints else ""
        message = message if message.endswith((".", "?")) else f"{message}."
        self.exit(2, f"{self.prog}: {message}{hint} See `{self.prog} --help`.\n")


class _HelpAll(argparse.Action):
    """Prints the complete help."""

    def __init__(self, option_strings: list[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, CommandParser)
        print(parser.format_all(), end="")
        parser.exit()
