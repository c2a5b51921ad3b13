"""Compiled loops over flat arrays. Each has a slow, obvious twin in the tests.

unit          bytes between break bytes, with the breaks before it where white space is kept
word          a pre-token: a unit holds any number of them
atom          a character or a byte that merging starts from
row           a table's entry for a unit
values        the output for a unit: ids of four bytes each, or text
line          the bytes up to a separator
pending       a unit with a row, whose values Python must find
irregular     a unit without values, because its neighbours decide how it is cut
left line     a line with an irregular unit, which Python encodes as a whole
open unit     a unit that ends with white space beyond ASCII; irregular before more white space
first         a unit that starts its line, where its bytes may mean another unit
marked        a word with one more "▁" in front than its bytes show
"""
