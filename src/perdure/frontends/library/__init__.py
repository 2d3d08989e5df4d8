"""The library: `Memory` and `AsyncMemory`."""
