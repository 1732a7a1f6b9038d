"""Scoring in production: the pruned model where its promise holds, the original elsewhere."""
