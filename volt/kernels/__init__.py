"""Compiled loops over flat arrays. The tests compare each with a slow, obvious twin.

In all loops, `p` is a position in `data`, `n_out` counts what is written to `out`, `to` is a
position that is written next, and `x_starts`, `x_ends` are where each x starts and ends in an array
of all x. The words of encoding are:

unit          bytes between break bytes; if white space is kept, with the breaks before them
word          a pre-token; a unit contains any number of words
atom          a character or a byte, from which merging starts
row           the entry for a unit in a table
values        the output for a unit: ids of four bytes each, or text
line          the bytes up to a separator
pending       a unit with a row but without values, which Python must compute
glue          of characters such as U+00A0: a unit continues over the break after one
first         a unit that starts its line, if its bytes may be cut differently there
marked        a word that is encoded with a "▁" in front, which its bytes lack
"""
