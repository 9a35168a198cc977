"""Bytes to messages and back; no state, no I/O."""
