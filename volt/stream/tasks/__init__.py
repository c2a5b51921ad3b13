"""Tasks: lines that are treated in the same way, such as a pair of languages, and the shards made of them."""
