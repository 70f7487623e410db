"""The pytest plugin, registered by installing Penstock: `def test_x(penstock_broker): ...`."""
