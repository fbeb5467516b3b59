; JavaScript, and what TypeScript has of it. Captures: see codegraph/parse/outline.py.
[(class_declaration) (class)] @class
[(function_declaration) (generator_function_declaration) (method_definition)] @callable
[(function_expression name: (_)) (generator_function name: (_))] @callable
(export_statement "default" value: [(function_expression) (generator_function)] @callable)
(variable_declarator name: (identifier) value: [(arrow_function) (function_expression) (generator_function)]) @callable
(variable_declarator name: (identifier) value: (class)) @class
(pair value: [(arrow_function) (function_expression) (generator_function)]) @callable
(pair value: (class)) @class
(assignment_expression
  left: [(identifier) (member_expression)]
  right: [(arrow_function) (function_expression) (generator_function)]) @callable
(assignment_expression left: [(identifier) (member_expression)] right: (class)) @class
(import_statement) @import
(export_statement source: (_)) @import
(call_expression function: [(identifier) (import)] arguments: (arguments . [(string) (template_string)])) @import
