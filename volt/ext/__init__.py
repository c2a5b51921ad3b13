"""Other libraries on top of the house: nothing below imports this wing, and what it needs is installed by who uses it.

volt.ext.torch      steps as a dataset of PyTorch: pip install 'volt-vocab[torch]'
volt.ext.ray        counting and encoding on a cluster of Ray: pip install 'volt-vocab[ray]'
volt.ext.loader_state   where such a dataset stands, which needs no PyTorch
"""
