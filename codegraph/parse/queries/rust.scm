; Captures: see codegraph/parse/outline.py.
[(struct_item) (enum_item) (union_item)] @class
(trait_item) @interface
(source_file (type_item) @class)
(mod_item body: (declaration_list (type_item) @class))
(block (type_item) @class)
[(function_item) (function_signature_item)] @callable
(impl_item) @body
(mod_item) @scope
[(use_declaration) (extern_crate_declaration)] @import
