"""The checks before a request reaches a route: who may call, how large it may be, and whether it is a repetition."""
