"""The model on exact numbers: forest, states, routing, and the numbers that decide truth."""
