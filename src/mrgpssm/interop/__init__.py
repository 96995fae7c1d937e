"""Into the tools people already use. Nothing here is imported unless asked for, and each tool is an extra."""
