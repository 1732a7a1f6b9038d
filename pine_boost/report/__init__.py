"""The report: one HTML page about one result."""
