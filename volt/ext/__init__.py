"""Integrations with other libraries, which no other package imports.

volt.ext.torch      steps as a dataset of PyTorch: pip install 'volt-vocab[torch]'
volt.ext.ray        counting and encoding on a cluster of Ray: pip install 'volt-vocab[ray]'
volt.ext.loader_state   the position of such a dataset
"""
