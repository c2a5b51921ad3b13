"""Tasks: corpora with the same transforms, such as the corpora of a language pair, and the shards
made from them."""
