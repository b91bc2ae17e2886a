"""What every package may use of the operating system: private folders, files, programs, child processes."""
