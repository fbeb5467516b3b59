; Captures: see codegraph/parse/outline.py.
(class) @class
(module) @class
[(method) (singleton_method)] @callable
(singleton_class) @body
(call method: (identifier) arguments: (argument_list . (string))) @import
