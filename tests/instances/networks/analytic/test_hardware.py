"""Named devices take the time that the roofline rule says."""

from __future__ import annotations

import pytest

from pipeplan.instances.networks.analytic.hardware import DEVICES


def test_shorter_numbers_are_faster_where_the_device_has_arithmetic_for_them() -> None:
    accelerator, host = DEVICES["v100-16gb"], DEVICES["xeon-8380"]
    assert accelerator.seconds(112e12, 0, 2) == pytest.approx(2.0, rel=1e-4)  # half the peak is assumed
    assert accelerator.seconds(112e12, 0, 4) == pytest.approx(16.0, rel=1e-4)
    assert host.seconds(1e12, 0, 2) == host.seconds(1e12, 0, 4)


def test_layers_with_little_arithmetic_wait_for_memory() -> None:
    device = DEVICES["a100-40gb"]
    assert device.seconds(1.0, 1555e9) == pytest.approx(1.0, rel=1e-4)
