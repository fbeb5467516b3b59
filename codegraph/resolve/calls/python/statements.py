"""Statements of a Python file: declarations, imports and control flow, over `Expressions`."""

from __future__ import annotations

from collections.abc import Callable

import tree_sitter

from codegraph.resolve.calls.python.expressions import Environment, Expressions, Loop, merge
from codegraph.resolve.calls.python.facts import UNKNOWN, Binding, Expression, PythonFacts, Scope

_ENDS = ("return_statement", "raise_statement", "break_statement", "continue_statement")


def read(tree: tree_sitter.Tree, source: bytes) -> PythonFacts:
    """The facts of a file."""
    statements = Statements(source)
    statements.module(tree.root_node)
    return statements.facts


class Statements(Expressions):
    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._later: list[tuple[tree_sitter.Node, int]] = []
        self._statements: dict[str, Callable[[tree_sitter.Node], None]] = {
            "class_definition": self._class,
            "function_definition": self._function,
            "decorated_definition": self._decorated,
            "assignment": self._assignment,
            "augmented_assignment": self._augmented,
            "if_statement": self._if,
            "for_statement": self._for,
            "while_statement": self._while,
            "try_statement": self._try,
            "with_statement": self._with,
            "match_statement": self._match,
            "return_statement": self._return,
            "assert_statement": self._assert,
            "global_statement": self._global,
            "nonlocal_statement": self._nonlocal,
            "import_statement": self._import,
            "import_from_statement": self._from,
            "type_alias_statement": self._type,
            "delete_statement": self._delete,
            "break_statement": self._break,
        }

    def module(self, root: tree_sitter.Node) -> None:
        self.facts.scopes.append(Scope("module", "", "", -1, 1))
        self.block(root)
        self._close(0)
        while self._later:
            node, scope = self._later.pop(0)
            self._body(node, scope)

    def block(self, node: tree_sitter.Node | None) -> bool:
        """Reads a block; whether control may reach its end."""
        reaches = True
        for child in () if node is None else node.named_children:
            kind = child.type
            if kind in ("expression_statement",) and child.named_child_count == 1:
                child = child.named_children[0]
                kind = child.type
            reader = self._statements.get(kind)
            if reader is not None:
                reader(child)
            elif kind in ("ERROR", "block", "module"):
                self.block(child)
            elif kind != "comment":
                self.expression(child)
            if kind in _ENDS:
                reaches = False
            elif kind in ("if_statement", "try_statement", "with_statement", "match_statement"):
                reaches = reaches and self._reaches
        return reaches

    def _close(self, scope: int) -> None:
        """What holds at the end of a module or class is what others see of it."""
        names = self.facts.scopes[scope].names
        for name, ids in list(names.items()):
            held = tuple(number for number in self.env.get(name, ()) if number in ids)
            kinds = {self.facts.bindings[number][0] for number in self.env.get(name, ())}
            if held and "phi" not in kinds and "is" not in kinds and "not" not in kinds:
                names[name] = held

    # Declarations

    def _decorated(self, node: tree_sitter.Node) -> None:
        decorators = [
            self.expression(child.named_children[0])
            for child in node.named_children
            if child.type == "decorator" and child.named_child_count
        ]
        inner = node.child_by_field_name("definition")
        if inner is not None:
            if decorators and self._adds(node, inner):
                self._function(inner, decorators, binds=False)
                return
            (self._class if inner.type == "class_definition" else self._function)(inner, decorators)

    def _adds(self, node: tree_sitter.Node, inner: tree_sitter.Node) -> bool:
        """Whether a declaration only adds to the one before it: `@name.setter`."""
        name = inner.child_by_field_name("name")
        parts = "" if name is None else self.text(name)
        first = self.text(node.named_children[0]).lstrip("@ ").split("(")[0].strip()
        return first in (f"{parts}.setter", f"{parts}.deleter", f"{parts}.getter") and parts in self.env

    def _class(self, node: tree_sitter.Node, decorators: list[Expression] | None = None) -> None:
        name = node.child_by_field_name("name")
        bases: list[Expression] = []
        arguments = node.child_by_field_name("superclasses")
        for child in () if arguments is None else arguments.named_children:
            if child.type == "keyword_argument":
                self.expression(child.child_by_field_name("value"))
            elif child.type != "comment":
                bases.append(self.expression(child))
        around, before = self.here, self.env
        scope = self.enter("class", "" if name is None else self.text(name), node)
        found = self.facts.scopes[scope]
        found.bases, found.decorators = bases, decorators or []
        found.type_names = self._type_parameters(node)
        self.env = {} if self.facts.scopes[around].kind == "class" else dict(before)
        outer = dict(self.env)
        self.block(node.child_by_field_name("body"))
        self._close(scope)
        self.env = {**outer, **before}
        self.env = before
        self.here = around
        self.bind(found.name, ("class", scope))

    def _type_parameters(self, node: tree_sitter.Node) -> tuple[str, ...]:
        parameters = node.child_by_field_name("type_parameters")
        if parameters is None:
            return ()
        return tuple(self.text(child).split(":")[0].strip("* ") for child in parameters.named_children)

    def _function(
        self, node: tree_sitter.Node, decorators: list[Expression] | None = None, *, binds: bool = True
    ) -> None:
        name = node.child_by_field_name("name")
        around = self.here
        parameters = self.read_parameters(node.child_by_field_name("parameters"))
        annotation = self.annotation(node.child_by_field_name("return_type"))
        scope = self.enter("function", "" if name is None else self.text(name), node)
        found = self.facts.scopes[scope]
        found.params, found.annotation, found.decorators = parameters, annotation, decorators or []
        found.is_async = node.child_count > 0 and node.children[0].type == "async"
        found.type_names = self._type_parameters(node)
        self.here = around
        if binds:
            self.bind(found.name, ("def", scope))
        self._later.append((node, scope))

    def _body(self, node: tree_sitter.Node, scope: int) -> None:
        """Bodies are read after what is around them: names of the module are found by scope, not by flow."""
        self.here, self.env, self.loops = scope, {}, []
        for position, parameter in enumerate(self.facts.scopes[scope].params):
            self.bind(parameter.name, ("param", scope, position))
        self.block(node.child_by_field_name("body"))

    def _type(self, node: tree_sitter.Node) -> None:
        children = node.named_children
        if len(children) == 2:
            left = self.text(children[0]).split("[")[0].strip()
            self.bind(left, ("type", self.annotation(children[1]) or UNKNOWN))

    # Imports

    def _import(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            if child.type == "aliased_import":
                name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
                if name is not None and alias is not None:
                    self.bind(self.text(alias), ("import", self.text(name), True))
            elif child.type == "dotted_name":
                module = self.text(child)
                top = module.split(".")[0]
                held = self.env.get(top, ())
                self.bind(top, ("import", module, False))
                if held and all(self.facts.bindings[number][0] == "import" for number in held):
                    self.hold(top, (*held, *self.env[top]))

    def _from(self, node: tree_sitter.Node) -> None:
        base = node.child_by_field_name("module_name")
        written = "" if base is None else self.text(base).replace(" ", "")
        module = written.lstrip(".")
        level = len(written) - len(module)
        for child in node.named_children:
            if child == base:
                continue
            if child.type == "wildcard_import":
                self.facts.scopes[self.here].stars.append((module, level))
            elif child.type == "aliased_import":
                name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
                if name is not None and alias is not None:
                    self.bind(self.text(alias), ("from", module, level, self.text(name)))
            elif child.type == "dotted_name":
                self.bind(self.text(child), ("from", module, level, self.text(child)))

    def _global(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            self.globals.setdefault(self.here, {})[self.text(child)] = 0

    def _nonlocal(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            scope = self.facts.scopes[self.here].parent
            while scope > 0 and self.text(child) not in self.facts.scopes[scope].names:
                scope = self.facts.scopes[scope].parent
            self.globals.setdefault(self.here, {})[self.text(child)] = scope

    # Assignments

    def _assignment(self, node: tree_sitter.Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        kind = self.annotation(node.child_by_field_name("type"))
        chain = [left]
        while right is not None and right.type == "assignment":
            chain.append(right.child_by_field_name("left"))
            right = right.child_by_field_name("right")
        value = None if right is None else self.expression(right)
        binding: Binding = ("=", value or UNKNOWN) if kind is None else (":", kind, value)
        if self.here == 0 and left is not None and self.text(left) == "__all__" and value and value[0] == "L":
            self.facts.exported = tuple(item[2] for item in value[2] if len(item) == 3 and item[0] == "k")
        for target in chain:
            if target is not None:
                self.target(target, binding)

    def _augmented(self, node: tree_sitter.Node) -> None:
        left = node.child_by_field_name("left")
        value = self.expression(node.child_by_field_name("right"))
        if left is None:
            return
        before = self.expression(left)
        if left.type == "identifier":
            self.bind(self.text(left), ("=", ("op", before, value, "")))

    def _delete(self, node: tree_sitter.Node) -> None:
        for child in node.named_children:
            self.expression(child)

    def _return(self, node: tree_sitter.Node) -> None:
        if node.named_child_count:
            self.facts.scopes[self.here].returns.append(self._inner(node))

    def _assert(self, node: tree_sitter.Node) -> None:
        children = node.named_children
        self.env = dict(self.condition(children[0])[0]) if children else self.env
        for child in children[1:]:
            self.expression(child)

    # Control flow

    def _if(self, node: tree_sitter.Node) -> None:
        holds, fails, _ = self.condition(node.child_by_field_name("condition"))
        ends: list[Environment] = []
        reached = False
        self.env = dict(holds)
        if self.block(node.child_by_field_name("consequence")):
            ends.append(self.env)
            reached = True
        has_else = False
        for child in node.children_by_field_name("alternative"):
            self.env = dict(fails)
            if child.type == "elif_clause":
                holds, fails, _ = self.condition(child.child_by_field_name("condition"))
                self.env = dict(holds)
                body = child.child_by_field_name("consequence")
            else:
                has_else = True
                body = child.child_by_field_name("body")
            if self.block(body):
                ends.append(self.env)
                reached = True
        if not has_else:
            ends.append(dict(fails))
            reached = True
        self.env = merge(ends) if ends else dict(fails)
        self._reaches = reached

    def _loop(self, node: tree_sitter.Node, before: Environment) -> None:
        loop = Loop(before)
        self.loops.append(loop)
        self.block(node.child_by_field_name("body"))
        self.loops.pop()
        for key, number in loop.phis.items():
            ids = self.env.get(key, ())
            if ids != before.get(key):
                self.facts.bindings[number] = ("phi", tuple(item for item in ids if item != number))
        self.env = merge([before, self.env, *loop.breaks])
        other = node.child_by_field_name("alternative")
        if other is not None:
            self.block(other.child_by_field_name("body"))

    def _break(self, node: tree_sitter.Node) -> None:
        if self.loops:
            self.loops[-1].breaks.append(dict(self.env))

    def _for(self, node: tree_sitter.Node) -> None:
        value = self.expression(node.child_by_field_name("right"))
        left = node.child_by_field_name("left")
        before = dict(self.env)
        self.env = dict(before)
        if left is not None:
            self.target(left, ("for", value, node.children[0].type == "async"))
        self._loop(node, before)

    def _while(self, node: tree_sitter.Node) -> None:
        before = dict(self.env)
        loop = Loop(before)
        self.loops.append(loop)
        holds, fails, _ = self.condition(node.child_by_field_name("condition"))
        self.loops.pop()
        self.env = dict(holds)
        self._loop(node, before)
        for key, number in loop.phis.items():
            ids = self.env.get(key, ())
            self.facts.bindings[number] = ("phi", tuple(item for item in ids if item != number))
        self.env = {**self.env, **{key: ids for key, ids in fails.items() if key not in self.env}}

    def _try(self, node: tree_sitter.Node) -> None:
        before = dict(self.env)
        reached = self.block(node.child_by_field_name("body"))
        after = self.env
        ends: list[Environment] = []
        handlers = merge([before, after])
        last: tree_sitter.Node | None = None
        for child in node.named_children:
            if child.type in ("except_clause", "except_group_clause"):
                self.env = dict(handlers)
                if self._except(child):
                    ends.append(self.env)
            elif child.type == "else_clause":
                self.env = dict(after)
                reached = self.block(child.child_by_field_name("body")) and reached
                after = self.env
            elif child.type == "finally_clause":
                last = child
        if reached:
            ends.insert(0, after)
        self.env = merge(ends) if ends else dict(handlers)
        if last is not None:
            for child in last.named_children:
                self.block(child)
        self._reaches = bool(ends)

    def _except(self, node: tree_sitter.Node) -> bool:
        reached = True
        alias = node.child_by_field_name("alias")
        for child in node.named_children:
            if child.type == "block":
                reached = self.block(child)
            elif child.type == "as_pattern":
                value = self.expression(child.named_children[0])
                target = child.child_by_field_name("alias")
                if target is not None:
                    self.target(target, ("except", value))
            elif child == alias:
                continue
            elif child.type != "comment":
                value = self.expression(child)
                if alias is not None:
                    self.target(alias, ("except", value))
        return reached

    def _with(self, node: tree_sitter.Node) -> None:
        is_async = node.children[0].type == "async"
        for clause in node.named_children:
            for item in clause.named_children if clause.type == "with_clause" else ():
                value = item.child_by_field_name("value")
                if value is not None and value.type == "as_pattern":
                    found = self.expression(value.named_children[0])
                    target = value.child_by_field_name("alias")
                    if target is not None:
                        self.target(target, ("with", found, is_async))
                else:
                    self.expression(value)
        self._reaches = self.block(node.child_by_field_name("body"))

    def _match(self, node: tree_sitter.Node) -> None:
        subjects = node.children_by_field_name("subject")
        value = self.expression(subjects[0]) if len(subjects) == 1 else UNKNOWN
        for other in subjects[1:]:
            self.expression(other)
        key = self.path(subjects[0]) if len(subjects) == 1 else ""
        before, ends = dict(self.env), [dict(self.env)]
        body = node.child_by_field_name("body")
        for case in () if body is None else body.named_children:
            if case.type != "case_clause":
                continue
            self.env = dict(before)
            for child in case.named_children:
                if child.type == "case_pattern":
                    self._pattern(child, value, key)
            guard = case.child_by_field_name("guard")
            if guard is not None and guard.named_child_count:
                self.env = dict(self.condition(guard.named_children[0])[0])
            if self.block(case.child_by_field_name("consequence")):
                ends.append(self.env)
        self.env = merge(ends)
        self._reaches = True

    def _pattern(self, node: tree_sitter.Node, value: Expression, key: str) -> None:
        """Binds what a case captures: `A()` narrows the subject, `A() as x` and a bare name bind a new one."""
        classes = [child for child in _walk(node) if child.type == "class_pattern"]
        top = node.named_children[0] if node.named_child_count else node
        narrowed = value
        if classes and top.type in ("class_pattern", "as_pattern", "union_pattern"):
            found = [self._dotted(child.named_children[0]) for child in classes if child.named_child_count]
            if top.type == "class_pattern":
                found = found[:1]
            number = self.add(("is", value, ("L", "tuple", tuple(found))))
            narrowed = ("v", (number,))
            if key:
                self.hold(key, (number,))
        if top.type == "as_pattern":
            self.bind(self.text(top.named_children[-1]), ("=", narrowed))
        elif top.type == "dotted_name" and top.named_child_count == 1:
            self.bind(self.text(top), ("=", value))
        elif top.type != "union_pattern":
            for child in _walk(top):
                around = "" if child.parent is None else child.parent.type
                is_name = child.type == "dotted_name" and child.named_child_count == 1
                if is_name and around in ("case_pattern", "keyword_pattern", "splat_pattern"):
                    self.bind(self.text(child), UNKNOWN)

    def _dotted(self, node: tree_sitter.Node) -> Expression:
        names = self.text(node).split(".")
        ids = self.held(names[0])
        found: Expression = ("n", self.here, names[0]) if ids is None else ("v", ids)
        for name in names[1:]:
            found = ("a", found, name)
        return found


def _walk(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    found = [node]
    for child in found:
        found.extend(child.named_children)
    return found
