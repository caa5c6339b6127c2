"""nvidia/personaplex-7b-v1 as an engine: its files, its opening, its memory, and the 80 ms beat."""
