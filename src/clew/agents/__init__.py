"""One package for each agent CLI; adapter.py defines what each must provide."""
