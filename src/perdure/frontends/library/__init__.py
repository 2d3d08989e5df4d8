"""The library door: `Memory` and `AsyncMemory`."""
