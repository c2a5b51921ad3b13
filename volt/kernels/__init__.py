"""Compiled loops over flat arrays. Each has a slow, obvious twin in the tests.

Words of the loops that encode and count text:

    unit          a run of bytes between break bytes, with the breaks before it where white space is kept
    word          a pre-token: a unit holds one word, several, or none
    atom          a symbol that merging starts from: a character or a byte
    row           a table's entry for a unit
    values        the bytes written for a unit: ids of four bytes each, or text
    line          the bytes up to a separator
    pending       a unit with a row but without values, which Python must find
    irregular     a unit whose neighbours decide how it is cut, so that it has no values of its own
    left line     a line with an irregular unit, which Python encodes as a whole
    open unit     a unit that ends with white space beyond ASCII; irregular where more white space may follow
    first         a unit that starts its line, where the same bytes mean another unit than elsewhere
    marked        a word with one more "▁" in front than its bytes show
"""
