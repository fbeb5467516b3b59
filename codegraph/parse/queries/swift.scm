; Captures: see codegraph/parse/outline.py.
[(class_declaration) (typealias_declaration)] @class
(protocol_declaration) @interface
[(function_declaration) (protocol_function_declaration) (init_declaration) (deinit_declaration)] @callable
(import_declaration) @import
