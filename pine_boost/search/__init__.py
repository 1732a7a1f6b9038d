"""The search: game, Oracle and Pruner."""
