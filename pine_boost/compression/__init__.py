"""The parts of `compress_booster`: rows, path, test and record, one noun a file."""
