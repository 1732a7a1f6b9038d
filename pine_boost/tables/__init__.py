"""Tables of users: what the native library really sees in them."""
