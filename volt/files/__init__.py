"""Files: blocks of whole lines whatever the compression, atomic writing, and threads that keep an order."""
