"""Tools of agents, one module for each thing that they work on; `port` says what a tool is."""
