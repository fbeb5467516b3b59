; After ecma.scm.
(field_definition value: [(arrow_function) (function_expression) (generator_function)]) @callable
(field_definition value: (class)) @class
