"""Score in production: the pruned model where its guarantee holds, the original elsewhere."""
