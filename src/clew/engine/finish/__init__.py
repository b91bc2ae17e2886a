"""The end of a run: the answer, the pin, usage and cost, and the error that the caller gets."""
