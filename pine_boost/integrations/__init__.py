"""Tools that teams keep their models in."""
