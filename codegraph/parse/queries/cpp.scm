; Captures: see codegraph/parse/outline.py.
(class_specifier body: (_)) @class
(struct_specifier body: (_)) @class
(union_specifier body: (_)) @class
(enum_specifier body: (_)) @class
(type_definition) @class
(alias_declaration) @class
(function_definition) @callable
(field_declaration declarator: (function_declarator)) @callable
(field_declaration declarator: (_ (function_declarator))) @callable
(field_declaration_list (declaration declarator: (function_declarator)) @callable)
(namespace_definition) @scope
(preproc_include) @import
