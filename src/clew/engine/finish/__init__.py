"""The end of a run: the answer, the pin, the figures and the error that the caller gets."""
