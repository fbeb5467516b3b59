; Captures: see codegraph/parse/outline.py.
(function_definition) @callable
(command name: (command_name) argument: (_)) @import
