"""Operating-system functions that every package may use: private folders, files, programs, child processes."""
