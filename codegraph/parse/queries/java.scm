; Captures: see codegraph/parse/outline.py.
[(class_declaration) (enum_declaration) (record_declaration)] @class
[(interface_declaration) (annotation_type_declaration)] @interface
[(method_declaration) (constructor_declaration) (compact_constructor_declaration) (annotation_type_element_declaration)] @callable
(object_creation_expression (class_body) @body)
(enum_constant body: (class_body) @body)
(import_declaration) @import
