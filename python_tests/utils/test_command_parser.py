"""Parsers of commands: two lengths of help, and errors that lead on."""

import pytest

from ptd_ext.utils.command_parser import CommandParser


def parser(common=("usual",)):
    made = CommandParser(prog="it", usage="it DATA [options]", description="About.", common=common)
    made.add_argument("data", metavar="DATA", help="the data")
    made.add_argument("--usual", help="an option that people use")
    group = made.add_argument_group("others", "seldom used")
    group.add_argument("--seldom", help="another option")
    return made


def printed(capsys, *arguments, common=("usual",)):
    with pytest.raises(SystemExit, match="0"):
        parser(common).parse_args(arguments)
    return capsys.readouterr().out


def test_the_short_help_has_the_usual_options(capsys):
    text = printed(capsys, "--help")
    for shown in ("usage: it DATA [options]", "About.", "the data", "--usual", "--help-all"):
        assert shown in text
    assert "seldom" not in text


def test_the_complete_help_has_all_of_them_by_section(capsys):
    text = printed(capsys, "--help-all")
    assert "seldom used" in text
    assert text.index("--usual") < text.index("others:") < text.index("--seldom")


def test_without_usual_options_the_help_is_complete(capsys):
    text = printed(capsys, "--help", common=None)
    assert "--seldom" in text
    assert "--help-all" not in text
    assert printed(capsys, "--help-all", common=None) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--seldon", "1"], "--seldon 1. Did you mean --seldom? See `it --help`.\n"),
        (["x", "--zzz"], "unrecognized arguments: --zzz. See `it --help`.\n"),
        ([], "the following arguments are required: DATA. See `it --help`.\n"),
    ],
)
def test_errors_are_one_line_that_leads_on(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(arguments)
    error = capsys.readouterr().err
    assert error.startswith("it: ")
    assert error.endswith(message)
    assert error.count("\n") == 1


def test_hidden_options_are_parsed():
    assert parser().parse_args(["x", "--seldom", "1"]).seldom == "1"
