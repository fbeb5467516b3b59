; Captures: see codegraph/parse/outline.py.
(struct_specifier body: (_)) @class
(union_specifier body: (_)) @class
(enum_specifier body: (_)) @class
(type_definition) @class
(function_definition) @callable
(preproc_include) @import
