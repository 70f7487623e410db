"""`make demo`: the whole system at work, checked at every step."""
