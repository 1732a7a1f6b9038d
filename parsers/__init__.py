"""Parsers: from a live model, a file or bytes to the tree IR.

`read_model` looks at the module name of an object (or at the first bytes of a file) and hands it
to the one reader that knows the library; a library that is not installed costs nothing.
"""
