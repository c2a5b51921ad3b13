"""Formats that list tokens and hold no merges: dictionaries of fairseq, Marian and OpenNMT, and plain lists."""
