"""Files of other libraries are read here, with warnings that `test_registry.py` checks."""

import pytest


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.filterwarnings("ignore::volt.errors.VoltWarning"))
