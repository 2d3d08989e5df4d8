"""What providers of several families share: clients of one vendor, metering, calibration."""
