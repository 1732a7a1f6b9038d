"""The isolation-forest score of the paper, and what only exists because it brings trees of its own."""
