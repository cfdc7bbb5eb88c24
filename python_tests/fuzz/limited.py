"""Runs cases in a forked child with limits on its memory and time, restarting it when it dies."""

import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MEGABYTE = 1 << 20
# Waiting for a loaded machine is not a fault, so processor time is what counts; the clock is for
# a child that sleeps.
_PATIENCE = 60
_M_ARENA_MAX = -8  # of malloc.h
# Arrow's own allocator reserves more memory at once than a case may map.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: `loaded`, `message` (a clean exception with `text`), or a `fault`."""

    kind: str
    text: str = ""


def run_cases(
    run: Callable[[Any], Outcome], cases: Sequence[Any], *, memory: int, seconds: float
) -> Iterator[tuple[Any, Outcome]]:
    """Every case with its outcome, in order.

    Args:
        run: Called with a case, in the child.
        cases: Many of them share a child.
        memory: Bytes that the child may map beyond those it starts with.
        seconds: Processor time of a case.
    """
    first = 0
    while first < len(cases):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work(run, cases[first:], writer, memory, seconds)
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                yield cases[first], Outcome(*json.loads(line))
                first += 1
        _, status = os.waitpid(child, 0)
        if first < len(cases) and status:
            yield cases[first], Outcome("fault", _cause(status, seconds))
            first += 1


def run_one(load: Callable[[], Any], *, memory: int, seconds: float = 5) -> Outcome:
    """The outcome of one call."""
    ((_, outcome),) = run_cases(lambda _: judged(load), [None], memory=memory, seconds=seconds)
    return outcome


def judged(load: Callable[[], Any], names: str = "") -> Outcome:
    """The outcome of a call that must return or raise an error whose message has `names` in it."""
    try:
        load()
    except (ValueError, FileNotFoundError) as error:
        text = str(error)
        # Subclasses such as UnicodeDecodeError are what a library raised, not messages of ours.
        ours = type(error) is ValueError or isinstance(error, FileNotFoundError)
        chain, cause = [], error
        while cause is not None and len(chain) < 9:
            chain.append(cause)
            cause = cause.__cause__ or cause.__context__
        # torch raises a RuntimeError where its allocator finds no memory.
        if any(isinstance(c, MemoryError) or "CPUAllocator" in str(c) for c in chain):
            return Outcome("fault", f"MemoryError within {text}")
        if ours and text.endswith((".", "?")) and names in text and len(text) < 2000:
            return Outcome("message", text)
        return Outcome("fault", f"no error message: {type(error).__name__}: {text[:300]}")
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        printed = f"{type(error).__name__}: {str(error)[:300]}"
        return Outcome("fault", f"{printed} ({os.path.basename(where.filename)}:{where.lineno})")
    return Outcome("loaded")


def _work(
    run: Callable[[Any], Outcome], cases: Sequence[Any], writer: int, memory: int, seconds: float
) -> None:
    """Never returns: an exit handler of the parent must not run in the child."""
    status = 1
    faulthandler.disable()  # a crash is an outcome here, and reported as one
    torch.set_num_threads(1)  # a fork has none of its parent's threads, and would wait for them
    # Threads that decode images would each map a stack of 8 MB, and 64 MB to allocate from.
    threading.stack_size(1 << 18)
    with contextlib.suppress(AttributeError):  # glibc alone has it
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(writer, "w") as lines:
            for case in cases:
                signal.setitimer(signal.ITIMER_PROF, seconds)
                signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
                outcome = run(case)
                signal.setitimer(signal.ITIMER_PROF, 0)
                lines.write(json.dumps([outcome.kind, outcome.text]) + "\n")
                lines.flush()
        status = 0
    finally:
        os._exit(status)


def _cause(status: int, seconds: float) -> str:
    if not os.WIFSIGNALED(status):
        return f"the child ended with {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGPROF:
        return f"it took more than {seconds:g} s"
    return f"the child was killed by {signal.Signals(number).name}"
