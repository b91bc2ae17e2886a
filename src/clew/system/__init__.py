"""What every package may use: private folders, atomic files, programs, child processes, timestamps."""
