"""Characters, words and markers: how text is normalised, cut into pre-tokens, and spelled as atoms."""
