"""``duplex-es plan``: how many gateways, workers and store nodes so many calls need, with every assumption shown."""
