"""``pine-boost`` and ``python -m pine_boost``: Ctrl-C ends with a plain message and code 130, also during imports."""

import signal
import sys


def run() -> int:
    """Run one command; Ctrl-C after its end does not change its exit code."""
    try:
        from pine_boost.cli import main
    except KeyboardInterrupt:
        print("pine-boost: error: interrupted; nothing was written", file=sys.stderr)
        code = 130
    else:
        code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # otherwise the interpreter dies of it while it shuts down
    exec("")  # Ctrl-C inside an exec of text (dataclasses do it) is marked as unhandled until another one ends well
    return code


if __name__ == "__main__":
    sys.exit(run())
