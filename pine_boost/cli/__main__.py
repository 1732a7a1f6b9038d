"""``python -m pine_boost.cli`` is ``pine-boost``."""

import sys

from pine_boost.cli import main

if __name__ == "__main__":
    sys.exit(main())
