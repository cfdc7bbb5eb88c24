"""Without the extra `all`, the calls that need it name it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptd_ext.utils.extras import OPTIONAL, optional_packages

ROOT = Path(__file__).parents[2]
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({names}))\n"


def without_extras(code):
    """Run code where none of the optional packages can be imported."""
    code = WITHOUT.format(names=list(OPTIONAL)) + code
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_headline_call():
    call = "ptd_ext.find_label_issues([[0.0]] * 9, [0] * 9)"
    result = without_extras(f"import ptd_ext; {call}")
    expected = 'ptd_ext.find_label_issues needs scikit-learn: pip install "ptd_ext[all]".'
    assert result.stderr.splitlines()[-1] == f"ModuleNotFoundError: {expected}"


@pytest.mark.parametrize("command", ["labels my.csv --label y", "train"])
def test_the_headline_commands(command, tmp_path):
    (tmp_path / "my.csv").write_text("a,y\n1,x\n2,z\n")
    words = [word.replace("my.csv", str(tmp_path / "my.csv")) for word in command.split()]
    if words[0] == "train":
        words += ["--out", str(tmp_path / "run")]
    result = without_extras(f"from ptd_ext.cli import main; main({words})")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert 'pip install "ptd_ext[all]"' in result.stderr


def test_other_errors_pass():
    for error in (ModuleNotFoundError("no x", name="x"), ValueError("no y")):
        with pytest.raises(type(error), match=str(error)), optional_packages("f"):
            raise error
    named = ModuleNotFoundError('The report needs Jinja: "ptd_ext[all]"', name="jinja2")
    with pytest.raises(ModuleNotFoundError, match=r"^The report"), optional_packages("f"):
        raise named


def test_every_extra_in_a_message_exists():
    tomllib = pytest.importorskip("tomllib")
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = pyproject["project"]["optional-dependencies"]
    sources = "".join(path.read_text() for path in (ROOT / "ptd_ext").rglob("*.py"))
    named = set(re.findall(r"ptd_ext\[([\w,-]+)\]", sources))
    assert "all" in named
    assert named <= set(extras)
