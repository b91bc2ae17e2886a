"""What the command line prints, draws and reads: output, tables, the status line, prompts for permissions."""
