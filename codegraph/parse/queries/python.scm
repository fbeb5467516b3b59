; Captures: see codegraph/parse/outline.py.
(class_definition) @class
(function_definition) @callable
(import_statement) @import
(import_from_statement) @import
(future_import_statement) @import
