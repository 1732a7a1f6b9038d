"""The trusted kernel: what a certificate claims is decided here, on exact integers."""
