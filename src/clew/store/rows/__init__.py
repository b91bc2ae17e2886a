"""Records of the hosts as rows and back. A module is loaded when its table is first used: most commands need none."""
