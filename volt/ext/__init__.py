"""Integrations with other libraries. No other package imports them.

volt.ext.torch          read steps as a dataset of PyTorch: pip install 'volt-vocab[torch]'
volt.ext.ray            count and encode on a cluster of Ray: pip install 'volt-vocab[ray]'
volt.ext.loader_state   store the position of a dataset
"""
