; Captures: see codegraph/parse/outline.py.
[(class_definition) (object_definition) (enum_definition) (package_object)] @class
(trait_definition) @interface
[(function_definition) (function_declaration)] @callable
(import_declaration) @import
