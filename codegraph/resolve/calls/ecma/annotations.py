"""Types of a TypeScript tree to annotations of `codegraph.resolve.calls.ecma.facts`, and the state of a reader."""

from __future__ import annotations

import tree_sitter

from codegraph.parse import parsing
from codegraph.parse.outline import Outline
from codegraph.resolve.calls.ecma import documented
from codegraph.resolve.calls.ecma.facts import UNKNOWN, Annotation, Binding, Class, EcmaFacts, Scope

_WRAPPED = frozenset(["parenthesized_type", "readonly_type", "type_annotation", "rest_type", "optional_type",
                      "constraint", "default_type", "adding_type_annotation"])  # fmt: skip
_SECONDS = 0.05
_AROUND = frozenset(["assignment_expression", "expression_statement", "export_statement", "lexical_declaration",
                     "variable_declaration", "variable_declarator", "pair", "parenthesized_expression",
                     "field_definition"])  # fmt: skip
_WORDS = frozenset(["=", "const", "let", "var", "export", "default", ":", "identifier", "member_expression", "async",
                    "(", "property_identifier", "static", "private_property_identifier"])  # fmt: skip


def first(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """The first child that is no comment."""
    return next((child for child in node.named_children if child.type != "comment"), None)


class Annotations:
    def __init__(self, source: bytes, outline: Outline) -> None:
        self.source = source
        self.outline = outline
        self.qnames: dict[int, str] = {one.node.id: one.qname for one in outline.declarations}
        self.facts = EcmaFacts(scopes=[Scope("module", -1)])
        self.here = 0
        self.is_documented = False

    def text(self, node: tree_sitter.Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def key(self, node: tree_sitter.Node | None) -> str:
        """The name of a property, '' where it is computed."""
        if node is None or node.type == "computed_property_name":
            return ""
        written = self.text(node)
        return written[1:-1] if node.type == "string" else written

    def open(self, kind: str, function: int = -1, owner: int = -1) -> int:
        """Enters a scope; the one before."""
        before = self.here
        self.facts.scopes.append(Scope(kind, before, function, owner))
        self.here = len(self.facts.scopes) - 1
        return before

    def bind(self, name: str, binding: Binding, scope: int | None = None) -> None:
        names = self.facts.scopes[self.here if scope is None else scope].names
        names[name] = (*names.get(name, ()), binding)

    def bind_type(self, name: str, binding: Binding) -> None:
        types = self.facts.scopes[self.here].types
        types[name] = (*types.get(name, ()), binding)

    def add_member(self, number: int, name: str, member: Binding, is_static: bool = False) -> None:
        one = self.facts.classes[number]
        members = one.statics if is_static else one.members
        members[name] = (*members.get(name, ()), member)

    def function(self, node: tree_sitter.Node, qname: str, owner: int = -1, is_static: bool = False) -> int:
        raise NotImplementedError

    def value(self, node: tree_sitter.Node | None) -> Annotation:
        raise NotImplementedError

    def annotation(self, node: tree_sitter.Node | None) -> Annotation:
        """An annotation; scopes of the type parameters that it declares are entered and left."""
        if node is None:
            return UNKNOWN
        kind = node.type
        if kind in _WRAPPED:
            return self.annotation(node.named_children[-1]) if node.named_child_count else UNKNOWN
        if kind in (
            "type_identifier",
            "identifier",
            "nested_type_identifier",
            "nested_identifier",
            "member_expression",
        ):
            return self._named(node, ())
        if kind == "generic_type":
            args = node.child_by_field_name("type_arguments")
            return self._named(node.named_children[0], self.arguments(args))
        if kind in ("union_type", "intersection_type"):
            return ("union", tuple(self.annotation(child) for child in node.named_children))
        if kind == "array_type":
            return ("arr", self.annotation(node.named_children[0]))
        if kind == "tuple_type":
            return ("tup", tuple(self._element(child) for child in node.named_children))
        if kind in ("function_type", "constructor_type"):
            number = self.function(node, "")
            if kind == "function_type":
                return ("fn", number)
            made = self.new_class("object type", "")
            self.add_member(made, "new", ("f", number))
            return ("obj", made)
        if kind == "object_type":
            made = self.new_class("object type", "")
            self.signatures(node, made)
            return ("obj", made)
        if kind == "type_query":
            return ("typeof", self.value(node.named_children[0]))
        if kind == "lookup_type" and node.named_child_count == 2:
            index = node.named_children[1]
            inner = index.named_children[0] if index.type == "literal_type" and index.named_child_count else index
            base = self.annotation(node.named_children[0])
            return (".t", base, self.key(inner) if inner.type == "string" else "[]")
        if kind == "predefined_type":
            return ("k", self.text(node))
        if kind == "literal_type":
            return ("k", node.named_children[0].type if node.named_child_count else "null")
        if kind in ("this_type", "this"):
            return ("this", self.here)
        if kind == "call_expression":  # import("module")
            arguments = node.child_by_field_name("arguments")
            if arguments is not None and arguments.named_child_count and self.text(node).startswith("import"):
                return ("imp", self.key(arguments.named_children[0]))
        return UNKNOWN

    # Comments

    def written_type(self, text: str) -> Annotation:
        """The annotation of a type that stands in a comment."""
        if text == "this":
            return ("this", self.here)
        if text.isidentifier():
            return ("t", self.here, text, ())
        source, before = f"type _ = {text};".encode(), self.source
        try:
            tree = parsing.parse(source, "typescript", _SECONDS)
        except parsing.UnparsableError:
            return UNKNOWN
        alias = tree.root_node.named_children[0] if tree.root_node.named_child_count else None
        if alias is None or tree.root_node.has_error:
            return UNKNOWN
        self.source = source
        try:
            return self.annotation(alias.child_by_field_name("value"))
        finally:
            self.source = before

    def comment(self, node: tree_sitter.Node) -> dict[tuple[str, str], str]:
        """What the comment before a declaration says: (tag, name of a parameter) to a type. Of JavaScript only."""
        found = documented.tags(self.comment_before(node))
        return {(tag, name if tag == "param" else ""): kind for tag, kind, name in found}

    def comment_before(self, node: tree_sitter.Node) -> str:
        """The comment before a declaration, which may begin with what holds the node; '' without one."""
        if not self.is_documented:
            return ""
        place: tree_sitter.Node | None = node
        while place is not None and place.prev_sibling is None and place.parent is not None:
            place = place.parent
            if place.type == "program":
                return ""
        while place is not None:
            before = place.prev_sibling
            if before is not None and before.type == "comment":
                return self.text(before)
            around = place.parent
            if around is None or around.type not in _AROUND or (before is not None and before.type not in _WORDS):
                return ""
            place = around
        return ""

    def typedefs(self, root: tree_sitter.Node) -> None:
        """Binds the types that comments of a module define; a module exports them."""
        comments = [self.text(node) for node in root.named_children if node.type == "comment"]
        for comment in comments if self.is_documented else ():
            for name, module, exported in documented.imports(comment):
                if name not in self.facts.scopes[0].types:
                    self.bind_type(name, ("import", module, exported))
            for name, kind in documented.types(comment):
                if name not in self.facts.scopes[0].types:
                    self.bind_type(name, ("alias", 0, (), self.written_type(kind)))
                    self.facts.exports.setdefault(name, (("l", name),))

    def _element(self, node: tree_sitter.Node) -> Annotation:
        found = node.child_by_field_name("type")
        return self.annotation(found if found is not None else node)

    def arguments(self, node: tree_sitter.Node | None) -> tuple[Annotation, ...]:
        if node is None:
            return ()
        return tuple(self.annotation(child) for child in node.named_children if child.type != "comment")

    def _named(self, node: tree_sitter.Node, args: tuple[Annotation, ...]) -> Annotation:
        if node.type in ("type_identifier", "identifier"):
            return ("t", self.here, self.text(node), args)
        if node.named_child_count == 2:
            return ("t.", self.annotation(node.named_children[0]), self.text(node.named_children[1]), args)
        return self.annotation(node) if node.type == "call_expression" else UNKNOWN

    def type_parameters(self, node: tree_sitter.Node) -> tuple[str, ...]:
        """Binds them in the present scope."""
        names: list[str] = []
        found = node.child_by_field_name("type_parameters")
        for child in () if found is None else found.named_children:
            name = child.child_by_field_name("name")
            if child.type == "type_parameter" and name is not None:
                names.append(self.text(name))
                limit = child.child_by_field_name("constraint")
                self.bind_type(names[-1], ("tp", None))
                if limit is not None:
                    self.facts.scopes[self.here].types[names[-1]] = (("tp", self.annotation(limit)),)
        return tuple(names)

    def new_class(self, kind: str, qname: str) -> int:
        self.facts.classes.append(Class(kind, qname, self.here))
        return len(self.facts.classes) - 1

    def signatures(self, body: tree_sitter.Node | None, number: int) -> None:
        """The members of an interface or object type."""
        for child in () if body is None else body.named_children:
            name = self.key(child.child_by_field_name("name"))
            if child.type == "method_signature":
                kind = "get" if any(part.type == "get" for part in child.children[:3]) else "f"
                if name:
                    made = self.function(child, self.qnames.get(child.id, ""), number)
                    self.add_member(number, name, (kind, made))
            elif child.type == "property_signature" and name:
                self.add_member(number, name, (":", self.annotation(child.child_by_field_name("type")), None))
            elif child.type == "call_signature":
                self.add_member(number, "()", ("f", self.function(child, "", number)))
            elif child.type == "construct_signature":
                self.add_member(number, "new", ("f", self.function(child, "", number)))
            elif child.type == "index_signature":
                self.add_member(number, "[]", (":", self.annotation(child.child_by_field_name("type")), None))
