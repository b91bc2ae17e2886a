"""The checks before a request reaches a route: who may call, how much may be sent, was it sent before."""
