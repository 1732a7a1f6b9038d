"""The model in exact numbers: forest, states, routing, and the bounds that proofs rest on."""
