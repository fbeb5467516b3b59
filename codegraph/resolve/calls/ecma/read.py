"""A tree to the facts of its file: statements, declarations, imports and exports."""

from __future__ import annotations

import tree_sitter

from codegraph.parse import grammars
from codegraph.parse.languages.ecma import VALUES
from codegraph.parse.outline import outline
from codegraph.resolve.calls.ecma.expressions import Expressions
from codegraph.resolve.calls.ecma.facts import UNKNOWN, EcmaFacts, Expression, Scope

_BLOCKS = frozenset(["statement_block", "for_statement", "for_in_statement", "catch_clause", "switch_body",
                     "class_static_block"])  # fmt: skip
_FUNCTIONS = frozenset(["function_declaration", "generator_function_declaration", "function_signature"])


def read(tree: tree_sitter.Tree, source: bytes) -> EcmaFacts:
    """The facts of a file."""
    language = next(one for one in ("typescript", "tsx", "javascript") if grammars.load(one) == tree.language)
    reader = Reader(source, outline(tree, source, language))
    reader.is_documented = language == "javascript"
    reader.typedefs(tree.root_node)
    reader.body(tree.root_node)
    return reader.facts


class Reader(Expressions):
    def body(self, node: tree_sitter.Node | None) -> None:
        for child in () if node is None else node.named_children:
            self.statement(child)

    def statement(self, node: tree_sitter.Node) -> None:
        kind = node.type
        if kind == "expression_statement":
            self.body(node)
        elif kind in ("lexical_declaration", "variable_declaration"):
            for child in node.named_children:
                self._variable(child, kind == "variable_declaration")
        elif kind in _FUNCTIONS:
            self._function(node)
        elif kind in ("class_declaration", "abstract_class_declaration"):
            self.class_(node)
        elif kind == "interface_declaration":
            self._interface(node)
        elif kind == "type_alias_declaration":
            self._alias(node)
        elif kind == "enum_declaration":
            self._enum(node)
        elif kind in ("internal_module", "module"):
            self._namespace(node)
        elif kind == "import_statement":
            self._import(node)
        elif kind == "export_statement":
            self._export(node)
        elif kind == "return_statement":
            self._return(node)
        elif kind == "if_statement":
            self._if(node)
        elif kind in _BLOCKS:
            self._block(node)
        elif kind.endswith(("_statement", "_clause", "_case", "_default")) or kind in ("ambient_declaration", "ERROR"):
            self.body(node)
        else:
            self.value(node)

    def _block(self, node: tree_sitter.Node) -> None:
        before = self.open("block")
        left = node.child_by_field_name("left")
        if node.type == "for_in_statement" and left is not None:
            value = self.value(node.child_by_field_name("right"))
            operator = node.child_by_field_name("operator")
            self.target(left, ("el", value) if operator is not None and operator.type == "of" else ("k", "string"))
            inner = node.child_by_field_name("body")
            if inner is not None:
                self.statement(inner)
        else:
            parameter = node.child_by_field_name("parameter")
            if parameter is not None:
                self.target(parameter, UNKNOWN)
            for child in node.named_children:
                if child != parameter:
                    self.statement(child)
        self.here = before

    def _if(self, node: tree_sitter.Node) -> None:
        condition = node.child_by_field_name("condition")
        self.value(condition)
        before = self.open("block")
        self.narrow(condition)
        then = node.child_by_field_name("consequence")
        if then is not None:
            self.statement(then)
        self.here = before
        other = node.child_by_field_name("alternative")
        if other is not None:
            self.body(other)

    def _return(self, node: tree_sitter.Node) -> None:
        number = self._own_function()
        for child in node.named_children:
            value = self.value(child, ("ret", number) if number >= 0 else None)
            if number >= 0 and child.type != "comment":
                self.facts.functions[number].returns.append(value)

    def _own_function(self) -> int:
        scope = self.here
        while scope >= 0 and self.facts.scopes[scope].kind not in ("function", "class", "namespace"):
            scope = self.facts.scopes[scope].parent
        return self.facts.scopes[scope].function if scope >= 0 else -1

    # Bindings

    def _hoisted(self) -> int:
        scope = self.here
        while self.facts.scopes[scope].kind not in ("function", "namespace", "module"):
            scope = self.facts.scopes[scope].parent
        return scope

    def _variable(self, node: tree_sitter.Node, is_var: bool) -> None:
        name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
        if name is None:
            return
        written = node.child_by_field_name("value")
        scope = self._hoisted() if is_var else self.here
        said = self.comment(node).get(("type", "")) if kind is None else None
        if said is not None and name.type == "identifier":
            annotation = self.written_type(said)
            value = None if written is None else self.value(written, ("type", annotation))
            self.bind(self.text(name), (":", annotation, value), scope)
            return
        if kind is None:
            if written is not None or name.type == "identifier":
                self.target(name, self.value(written), scope)
            return
        annotation = self.annotation(kind)
        value = None if written is None else self.value(written, ("type", annotation))
        if name.type == "identifier":
            self.bind(self.text(name), (":", annotation, value), scope)
        else:
            self.target(name, ("as", annotation), scope)

    def target(self, node: tree_sitter.Node, value: Expression, scope: int | None = None) -> None:
        """Binds the names of a pattern."""
        kind = node.type
        if kind in ("identifier", "shorthand_property_identifier_pattern"):
            self.bind(self.text(node), ("=", value), scope)
        elif kind == "object_pattern":
            for child in node.named_children:
                if child.type == "shorthand_property_identifier_pattern":
                    self.target(child, (".", value, self.text(child)), scope)
                elif child.type == "pair_pattern":
                    name, inner = self.key(child.child_by_field_name("key")), child.child_by_field_name("value")
                    if inner is not None:
                        self.target(inner, (".", value, name) if name else UNKNOWN, scope)
                elif child.type == "object_assignment_pattern":
                    left, right = child.child_by_field_name("left"), self.value(child.child_by_field_name("right"))
                    if left is not None:
                        self.target(left, ("or", ((".", value, self.text(left)), right)), scope)
                elif child.type == "rest_pattern" and child.named_child_count:
                    self.target(child.named_children[0], value, scope)
        elif kind == "array_pattern":
            at = 0
            for child in node.children:
                if child.type == ",":
                    at += 1
                elif child.type == "rest_pattern" and child.named_child_count:
                    self.target(child.named_children[0], value, scope)
                elif child.is_named:
                    self.target(child, ("ix", value, at), scope)
        elif kind == "assignment_pattern":
            left, right = node.child_by_field_name("left"), self.value(node.child_by_field_name("right"))
            if left is not None:
                self.target(left, ("or", (value, right)), scope)

    def assignment(self, node: tree_sitter.Node) -> Expression:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None:
            return UNKNOWN
        if left.type == "identifier":
            value = self.value(right)
            self._assigned_name(self.text(left), value)
            return value
        if left.type != "member_expression":
            value = self.value(right)
            if left.type == "subscript_expression":
                self.facts.assigned.append((self.value(left)[1], False, "[]", value))
            elif left.type not in ("object_pattern", "array_pattern"):
                self.value(left)
            return value
        base, name = left.child_by_field_name("object"), self.text(left.named_children[-1])
        owner = self.value(base)
        value = self.value(right)
        if owner[0] == "this":
            said = self.comment(node).get(("type", ""))
            self._of_this(name, value, None if said is None else self.written_type(said))
        written = "" if base is None else self.text(base)
        if written == "module" and name == "exports":
            self._exported("=", ("e", value))
        elif written in ("exports", "module.exports"):
            self._exported(name, ("e", value))
        if owner[0] == "." and owner[2] == "prototype":
            self.facts.assigned.append((owner[1], True, name, value))
        elif owner[0] in ("n", ".", "c"):
            self.facts.assigned.append((owner, name == "prototype", "" if name == "prototype" else name, value))
        return value

    def _assigned_name(self, name: str, value: Expression) -> None:
        scope = self.here
        while scope >= 0 and name not in self.facts.scopes[scope].names:
            scope = self.facts.scopes[scope].parent
        if scope < 0:
            return
        found = self.facts.scopes[scope].names[name]
        if all(one[0] == "=" for one in found) and value != UNKNOWN:
            self.bind(name, ("=", value), scope)

    def _of_this(self, name: str, value: Expression, said: Expression | None) -> None:
        binding = ("=", value) if said is None else (":", said, value)
        scope = self.here
        while scope >= 0:
            one = self.facts.scopes[scope]
            if one.kind == "function" and not self.facts.functions[one.function].is_arrow:
                function = self.facts.functions[one.function]
                if function.owner >= 0:
                    members = self.facts.classes[function.owner].members
                    if not function.is_static and all(found[0] == "=" for found in members.get(name, ())):
                        self.add_member(function.owner, name, binding)
                else:
                    function.own[name] = (*function.own.get(name, ()), binding)
                return
            scope = one.parent

    # Declarations

    def _function(self, node: tree_sitter.Node) -> None:
        name = node.child_by_field_name("name")
        number = self.function(node, self.qnames.get(node.id, ""))
        if name is not None:
            self.bind(self.text(name), ("f", number))

    def class_(self, node: tree_sitter.Node) -> int:
        around = node.parent
        qname = self.qnames.get(node.id, "")
        if not qname and around is not None and around.type in VALUES:
            qname = self.qnames.get(around.id, "")
        number = self.new_class("class", qname)
        made = self.facts.classes[number]
        name = node.child_by_field_name("name")
        if name is not None and node.type != "class":
            self.bind(self.text(name), ("K", number))
            self.bind_type(self.text(name), ("K", number))
        for child in node.children:
            if child.type == "decorator":
                self.body(child)
        before = self.open("class", owner=number)
        made.scope = self.here
        if name is not None and node.type == "class":
            self.bind(self.text(name), ("K", number))
            self.bind_type(self.text(name), ("K", number))
        made.type_params = self.type_parameters(node)
        for child in node.named_children:
            if child.type == "class_heritage":
                self._heritage(child, number)
        self._members(node.child_by_field_name("body"), number)
        self.here = before
        return number

    def _heritage(self, node: tree_sitter.Node, number: int) -> None:
        made = self.facts.classes[number]
        for child in node.named_children:
            if child.type == "extends_clause":
                value = child.child_by_field_name("value")
                made.bases.append(self.value(value))
                args = self.arguments(child.child_by_field_name("type_arguments"))
                if value is not None and value.type in ("identifier", "member_expression"):
                    kind = self._named(value, args)
                    made.types.append(kind)
            elif child.type == "implements_clause":
                continue  # What an interface says is declared again in the class.
            elif child.type != "comment":
                made.bases.append(self.value(child))

    def _members(self, body: tree_sitter.Node | None, number: int) -> None:
        for child in () if body is None else body.named_children:
            words = {part.type for part in child.children[:6] if not part.is_named}
            is_static = "static" in words
            if child.type in ("method_definition", "method_signature", "abstract_method_signature"):
                name = self.key(child.child_by_field_name("name"))
                made = self.function(child, self.qnames.get(child.id, ""), number, is_static)
                if name and "set" not in words:
                    self.add_member(number, name, ("get" if "get" in words else "f", made), is_static)
            elif child.type in ("public_field_definition", "field_definition"):
                name = self.key(child.child_by_field_name("name") or child.child_by_field_name("property"))
                kind, written = child.child_by_field_name("type"), child.child_by_field_name("value")
                annotation = None if kind is None else self.annotation(kind)
                if kind is None and (said := self.comment(child).get(("type", ""))) is not None:
                    annotation = self.written_type(said)
                value = None
                if written is not None:
                    value = self.value(written, None if annotation is None else ("type", annotation))
                    if value[0] == "f":
                        self.facts.functions[value[1]].owner = number
                        self.facts.functions[value[1]].is_static = is_static
                if name and (annotation or value):
                    member = ("=", value) if annotation is None else (":", annotation, value)
                    self.add_member(number, name, member, is_static)
            elif child.type == "class_static_block":
                self._block(child)
            else:
                self.body(child)

    def _interface(self, node: tree_sitter.Node) -> None:
        number = self.new_class("interface", self.qnames.get(node.id, ""))
        name = node.child_by_field_name("name")
        if name is not None:
            self.bind_type(self.text(name), ("K", number))
        before = self.open("class", owner=number)
        made = self.facts.classes[number]
        made.scope = self.here
        made.type_params = self.type_parameters(node)
        for child in node.named_children:
            if child.type == "extends_type_clause":
                made.types += [self.annotation(part) for part in child.named_children]
        self.signatures(node.child_by_field_name("body"), number)
        self.here = before

    def _alias(self, node: tree_sitter.Node) -> None:
        name = node.child_by_field_name("name")
        before = self.open("block")
        params = self.type_parameters(node)
        scope, annotation = self.here, self.annotation(node.child_by_field_name("value"))
        self.here = before
        if name is not None:
            self.bind_type(self.text(name), ("alias", scope, params, annotation))

    def _enum(self, node: tree_sitter.Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self.bind(self.text(name), ("=", ("k", "enum")))
            self.bind_type(self.text(name), ("alias", self.here, (), ("k", "number")))
        self.value(node.child_by_field_name("body"))

    def _namespace(self, node: tree_sitter.Node) -> None:
        name = node.child_by_field_name("name")
        if name is None or name.type == "string":
            before = self.open("namespace")
            self.body(node.child_by_field_name("body"))
            self.here = before
            return
        start = self.here
        for part in self.text(name).split("."):
            before = self.here
            self.open("namespace")
            self.bind(part, ("ns", self.here), before)
            types = self.facts.scopes[before].types
            types[part] = (*types.get(part, ()), ("ns", self.here))
        self.body(node.child_by_field_name("body"))
        self.here = start

    # Modules

    def _exported(self, name: str, what: Expression) -> None:
        if self.facts.scopes[self.here].kind != "namespace":
            self.facts.exports[name] = (*self.facts.exports.get(name, ()), what)

    def _import(self, node: tree_sitter.Node) -> None:
        source = node.child_by_field_name("source")
        for clause in node.named_children:
            if clause.type == "import_require_clause":
                module = self.key(clause.child_by_field_name("source"))
                self._imported(self.text(clause.named_children[0]), module, "=")
            elif clause.type == "import_clause" and source is not None:
                for part in clause.named_children:
                    if part.type == "identifier":
                        self._imported(self.text(part), self.key(source), "default")
                    elif part.type == "namespace_import":
                        self._imported(self.text(part.named_children[-1]), self.key(source), "*")
                    elif part.type == "named_imports":
                        for one in part.named_children:
                            name, alias = one.child_by_field_name("name"), one.child_by_field_name("alias")
                            if name is not None:
                                self._imported(self.text(alias or name), self.key(source), self.key(name))

    def _imported(self, local: str, module: str, name: str) -> None:
        self.bind(local, ("import", module, name))
        self.bind_type(local, ("import", module, name))

    def _export(self, node: tree_sitter.Node) -> None:
        source, declared = node.child_by_field_name("source"), node.child_by_field_name("declaration")
        is_default = any(child.type == "default" for child in node.children)
        if declared is not None:
            scope = self.facts.scopes[self.here]
            before = {name: _bindings(scope, name) for name in {*scope.names, *scope.types}}
            functions, classes = len(self.facts.functions), len(self.facts.classes)
            self.statement(declared)
            names = {**scope.names, **scope.types}
            changed = [name for name in names if _bindings(scope, name) != before.get(name, 0)]
            name_node = declared.child_by_field_name("name")
            if is_default:
                if name_node is not None:
                    self._exported("default", ("l", self.text(name_node)))
                elif declared.type.startswith("class"):
                    self._exported("default", ("e", ("K", classes)))
                else:
                    self._exported("default", ("e", ("f", functions)))
                return
            for name in changed:
                if name_node is None or name == self.text(name_node).partition(".")[0]:
                    self._exported(name, ("l", name))
            return
        value = node.child_by_field_name("value")
        if value is not None:
            found = self.value(value)
            self._exported("default", ("l", self.text(value)) if value.type == "identifier" else ("e", found))
            return
        if any(child.type == "=" for child in node.children):
            self._exported("=", ("e", self.value(node.named_children[0])))
            return
        for child in node.named_children:
            if child.type == "namespace_export" and source is not None:
                self._exported(self.key(child.named_children[0]), ("r", self.key(source), "*"))
            elif child.type == "export_clause":
                for one in child.named_children:
                    local, alias = one.child_by_field_name("name"), one.child_by_field_name("alias")
                    if local is None:
                        continue
                    what = ("l", self.key(local)) if source is None else ("r", self.key(source), self.key(local))
                    self._exported(self.key(alias or local), what)
        if source is not None and any(child.type == "*" for child in node.children):
            self.facts.stars.append(self.key(source))


def _bindings(scope: Scope, name: str) -> int:
    return len(scope.names.get(name, ())) + len(scope.types.get(name, ()))
