"""Signals are recorded while a run trains, and handled as before afterwards."""

import signal

import pytest

from ptd_ext.engine.training.signals import StopSignals

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def heard():
    """The signals that a handler of the caller's own has received."""
    received = []
    before = {n: signal.signal(n, lambda number, _: received.append(number)) for n in NUMBERS}
    yield received
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_second_signal_is_the_callers(heard, number):
    with StopSignals() as stopping:
        signal.raise_signal(number)
        assert (stopping.received, heard) == (number, [])
        signal.raise_signal(number)
        assert heard == [number]
    signal.raise_signal(number)
    assert heard == [number, number]


def test_handlers_come_back_without_any_signal(heard):
    with pytest.raises(KeyError), StopSignals() as stopping:
        raise KeyError
    for number in NUMBERS:
        signal.raise_signal(number)
    assert heard == list(NUMBERS)
    assert stopping.received == 0


def test_a_handler_set_after_the_signal_stays(heard):
    later = []
    with StopSignals():
        signal.raise_signal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda number, _: later.append(number))
    signal.raise_signal(signal.SIGTERM)
    assert (later, heard) == ([signal.SIGTERM], [])
