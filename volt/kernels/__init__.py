"""Compiled loops over flat arrays. The tests compare each with a slow, obvious reference implementation.

unit          bytes between break bytes, with the breaks before them if white space is kept
word          a pre-token; a unit contains any number of them
atom          a character or a byte that merging starts from
row           a table's entry for a unit
values        the output for a unit: ids of four bytes each, or text
line          the bytes up to a separator
pending       a unit with a row, whose values Python must compute
irregular     a unit without values, because its neighbours decide how it is cut
left line     a line with an irregular unit, which Python encodes as a whole
open unit     a unit that ends with white space beyond ASCII; irregular if more white space follows
first         a unit that starts its line, if its bytes may be cut differently there
marked        a word with one more "▁" in front than its bytes show
"""
