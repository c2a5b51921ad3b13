"""The BPE .model of sentencepiece, and its .vocab."""
