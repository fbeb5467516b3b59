; Captures: see codegraph/parse/outline.py.
[(class_declaration) (enum_declaration) (trait_declaration)] @class
(interface_declaration) @interface
[(function_definition) (method_declaration)] @callable
(anonymous_class) @body
(namespace_use_declaration) @import
[(require_expression) (require_once_expression) (include_expression) (include_once_expression)] @import
