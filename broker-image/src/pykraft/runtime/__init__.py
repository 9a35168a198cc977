"""The shell: sockets, threads, files and time around the cores."""
