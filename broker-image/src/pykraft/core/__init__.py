"""The deterministic centre: no sockets, no clock, no chance, no files but through `storage`."""
