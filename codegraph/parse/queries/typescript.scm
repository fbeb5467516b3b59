; After ecma.scm; TSX too.
[(abstract_class_declaration) (enum_declaration) (type_alias_declaration)] @class
(interface_declaration) @interface
[(function_signature) (method_signature) (abstract_method_signature)] @callable
(public_field_definition value: [(arrow_function) (function_expression) (generator_function)]) @callable
(public_field_definition value: (class)) @class
[(internal_module) (module)] @scope
(ambient_declaration "global") @scope
