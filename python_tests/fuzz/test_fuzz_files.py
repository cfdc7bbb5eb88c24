"""A few hundred damaged files; `fuzz/files.py` runs as many as one likes."""

from collections import Counter

import pytest

pytest.importorskip("scipy")
pytest.importorskip("PIL")

from fuzz.files import fuzz
from fuzz.limited import MEGABYTE, Outcome, judged, run_cases
from fuzz.readers import readers

CASES = 330


def test_files_load_without_damage(tmp_path):
    """Damage to a file that is rejected anyway would test nothing."""
    for name, reader in readers().items():
        reader.write(tmp_path / name)
        reader.load(tmp_path / name)


def test_damaged_files_load_or_raise_an_error_message():
    outcomes = list(fuzz(CASES, seed=0))
    faults = [f"{name} {number}: {o.text}" for name, number, o in outcomes if o.kind == "fault"]
    assert not faults, "\n".join(faults)
    assert len(outcomes) == CASES
    # Damage that nothing reads, or that everything stops at the door, would test nothing.
    kinds = Counter(outcome.kind for *_, outcome in outcomes)
    assert kinds["loaded"] > CASES // 10
    assert kinds["message"] > CASES // 3


def test_the_child_reports_every_kind_of_fault():
    def run(case):
        def load():
            if case == "memory":
                bytearray(512 * MEGABYTE)
            elif case == "time":
                while True:
                    pass
            elif case == "crash":
                import ctypes

                ctypes.string_at(0)
            elif case == "other":
                raise KeyError("x")
            elif case == "library":
                b"\xff".decode()
            elif case == "words":
                raise ValueError("no full stop")
            elif case == "message":
                raise ValueError("file must be a file; it is not.")

        return judged(load)

    cases = ["memory", "time", "crash", "other", "library", "words", "message", "fine"]
    found = dict(run_cases(run, cases, memory=64 * MEGABYTE, seconds=0.3))
    assert found["fine"] == Outcome("loaded")
    assert found["message"].kind == "message"
    texts = {case: found[case].text for case in cases[:6]}
    assert {found[case].kind for case in cases[:6]} == {"fault"}
    assert "MemoryError" in texts["memory"]
    assert texts["time"] == "it took more than 0.3 s"
    assert texts["crash"] == "the child was killed by SIGSEGV"
    assert "KeyError" in texts["other"]
    assert "no error message: UnicodeDecodeError" in texts["library"]
    assert "no error message: ValueError" in texts["words"]
