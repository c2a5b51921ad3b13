"""Tasks: lines that are all treated in the same way, such as those of one pair of languages, and what becomes of them."""
