; Captures: see kb/code/outline.py.
(function_definition) @callable
(command name: (command_name) argument: (_)) @import
