"""Compiled loops over flat arrays. Each has a slow, obvious twin in the tests.

The loops that encode and count text (`volt.kernels.unit_*`) use these words:

    unit          a run of bytes between break bytes, with the breaks in front of it where white space is kept
    word          a pre-token: a unit holds one word, several, or none
    atom          one of the symbols that merging starts from: a character, or a byte
    row           what a table knows of one unit: its key, its number, the size of its values, the first of these
    values        the bytes that are written for a unit: ids of four bytes each, or text
    line          the bytes up to a separator
    pending       a unit that has a row but no values yet, because Python must find these
    irregular     a unit whose neighbours decide how it is cut, so that it has no values of its own
    left line     a line that holds an irregular unit: nothing is written for it, and Python encodes it as a whole
    open unit     a unit that ends with white space beyond ASCII: its values hold if no more white space follows it,
                  which the loop sees from the next byte; if more may follow, the unit counts as irregular there
    first         said of a unit that starts its line, where the same bytes mean another unit than elsewhere
    marked        said of a word that has a "▁" more in front than its bytes show
"""
