"""The pure domain: history, pins, the decision, prompts and outcomes. No clock, no I/O, no third-party import."""
