; Captures: see codegraph/parse/outline.py.
[(class_declaration) (object_declaration) (companion_object)] @class
(type_alias) @class
[(function_declaration) (secondary_constructor)] @callable
(object_literal (class_body) @body)
(enum_entry (class_body) @body)
(import) @import
(source_file (annotated_expression) @suspect)
