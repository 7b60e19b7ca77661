"""The process of a Spark driver is killed."""

from __future__ import annotations

import psutil

from tests.waiting import DEADLINE


def kill(process):
    """Kill a driver, and wait until its Java has noticed and ended: it may be writing until then."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    java = [each for each in below if each.name() == "java"]
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(java, DEADLINE)
    assert not alive
