; Captures: see kb/code/outline.py.
[(type_spec) (type_alias)] @class
[(function_declaration) (method_declaration)] @callable
(import_spec) @import
