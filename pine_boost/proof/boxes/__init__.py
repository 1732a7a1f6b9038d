"""Proofs by branch and bound over boxes of states; no solver takes part."""
