"""The commands, one module per noun. A command parses, calls and prints; heavy imports are inside its functions."""
