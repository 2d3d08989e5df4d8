"""How the user wants to be answered: standing instructions, style, procedures."""
