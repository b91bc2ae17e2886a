"""Records of the hosts as rows and back. Each is loaded when it is first used: most commands never need it."""
