"""A child for benchmarks.measuring: takes memory, sleeps, tells whether it was interrupted."""

import json
import sys
import time
from dataclasses import asdict

from benchmarks.measuring import measured, say, say_started


def body(cell):
    block = bytearray(cell["megabytes"] * 2**20)
    try:
        time.sleep(cell["seconds"])
    except KeyboardInterrupt:
        return f"interrupted with {len(block)}"
    return f"slept with {len(block)}"


if __name__ == "__main__":
    cell = json.loads(sys.argv[2])
    print("noise on standard output")
    say_started()
    run = measured(lambda: body(cell))
    if not cell.get("is_silent"):
        say(asdict(run))
