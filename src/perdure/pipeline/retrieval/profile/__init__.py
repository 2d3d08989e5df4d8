"""What holds in every conversation: standing facts and directives."""
