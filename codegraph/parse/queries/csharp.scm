; Captures: see codegraph/parse/outline.py.
[(class_declaration) (struct_declaration) (enum_declaration) (record_declaration) (delegate_declaration)] @class
(interface_declaration) @interface
[(method_declaration) (constructor_declaration) (destructor_declaration) (local_function_statement)] @callable
[(operator_declaration) (conversion_operator_declaration)] @callable
(namespace_declaration) @scope
(using_directive) @import
