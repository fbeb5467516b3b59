; Captures: see codegraph/parse/outline.py.
[(type_spec) (type_alias)] @class
[(function_declaration) (method_declaration)] @callable
(type_spec type: (interface_type (method_elem) @callable))
(import_spec) @import
