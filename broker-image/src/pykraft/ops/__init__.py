"""How to look at a running node: metrics, probes, logs."""
