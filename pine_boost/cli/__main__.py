"""``python -m pine_boost.cli`` is ``pine-boost``."""

import sys

from pine_boost.__main__ import run

if __name__ == "__main__":
    sys.exit(run())
