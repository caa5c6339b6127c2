"""The command ``duplex-es``: run everything on one machine, talk to it, and read what it recorded."""
