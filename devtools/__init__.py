"""Tools for the development of Understudy: no user needs them, and no wheel has them."""
