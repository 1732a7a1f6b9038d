"""Convert users' tables to the values that the native library compares."""
