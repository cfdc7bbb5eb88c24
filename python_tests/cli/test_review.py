"""`ptd-ext review` as a user starts and stops it, and with the page in a browser."""

import http.client
import os
import signal
import subprocess
import sys

import pytest
from label_issues.report.page_scripts import READY, TALLY
from label_issues.report.report_browser import CHROMIUM, Browser
from label_issues.report.report_cases import NAMES, findings

from ptd_ext.cli import main

pytest.importorskip("jinja2")


@pytest.fixture
def folder(tmp_path):
    findings().report(tmp_path / "report.html")
    return tmp_path


class Running:
    """The command in a process of its own."""

    def __init__(self, folder, *arguments):
        command = [sys.executable, "-m", "ptd_ext", "review", str(folder), *arguments]
        # A shell starts commands in the background with SIGINT ignored, and children inherit it.
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.address = self.process.stdout.readline().decode().split()[-1]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        printed, errors = self.process.communicate(timeout=60)
        return self.process.returncode, printed.decode(), errors.decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing must hold report.html"),
        ([".", "--page", "other.html"], "must hold other.html"),
        ([".", "--port", "70000"], "--port must be from 0 to 65535; got 70000."),
    ],
)
def test_arguments_are_checked(arguments, message, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit, match="2"):
        main(["review", *arguments])
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_stops_it_cleanly(folder):
    running = Running(folder)
    host, path = running.address.removeprefix("http://").split("/", 1)
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", f"/{path}")
    assert b"Labels to review" in connection.getresponse().read()
    code, printed, errors = running.stop()
    assert (code, errors) == (0, "")
    assert f"0 decisions in {folder / 'decisions.csv'}" in printed
    assert os.listdir(folder) == ["report.html"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")
def test_decisions_on_the_page_are_written_at_once(folder, tmp_path_factory):
    running, browser = Running(folder), Browser(tmp_path_factory.mktemp("browser"))
    try:
        browser.open(running.address)
        browser.wait_for(READY)
        browser.choose("#reviewer", "Ann")
        browser.press("j", "a", "n", "w", "u")
        browser.wait_for(f"{TALLY}.startsWith('2 of 30')")
        file = folder / "decisions.csv"
        browser.wait_for("document.getElementById('saved').textContent.includes('in the folder')")
        browser.run("localStorage.clear()")
        browser.open(running.address)
        browser.wait_for(f"{TALLY}.startsWith('2 of 30 flagged labels decided: 1 changed')")
        assert file.read_text(encoding="utf-8").count("Ann") == 2
        assert NAMES[0] in file.read_text(encoding="utf-8")
        code, printed, errors = running.stop()
        assert (code, errors) == (0, "")
        assert "2 decisions in" in printed
        browser.press("j", "a")
        browser.wait_for("document.getElementById('saved').textContent.includes('Not saved')")
        others = [e for e in browser.errors if "127.0.0.1" not in e and "ERR_CONN" not in e]
        assert others == []
    finally:
        browser.close()
        running.process.kill()
        running.process.wait()
