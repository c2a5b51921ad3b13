"""Tasks: corpora that get the same treatment, such as those of a language pair, and the shards written from them."""
