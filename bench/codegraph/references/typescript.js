// TypeScript and JavaScript by TypeScript's compiler: node typescript.js FOLDER < paths; NODE_PATH has the compiler.
"use strict";
const fs = require("fs");
const path = require("path");
const ts = require("typescript");

const isFunction = (node) => ts.isArrowFunction(node) || ts.isFunctionExpression(node);
const isValue = (node) => node && (isFunction(node) || ts.isClassExpression(node));

function read(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  if (source.parseDiagnostics.length) throw new Error(source.parseDiagnostics[0].messageText.toString());
  return rowsOf(source, () => {});
}

// The rows of a file; `named` is called with each node that declares a name, and the name.
function rowsOf(source, named) {
  const rows = [];
  const line = (node) => source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
  const written = (name) =>
    ts.isStringLiteral(name) || ts.isNoSubstitutionTemplateLiteral(name) ? name.text : name.getText(source);
  const token = (node, kind) => node.getChildren(source).find((child) => child.kind === kind);
  const defaultToken = (node) =>
    (node.modifiers || []).find((one) => one.kind === ts.SyntaxKind.DefaultKeyword);

  function bound(node) {
    // [name node, text, prefix, value] of what gives a name to a function or class expression.
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && isValue(node.initializer))
      return [node.name, written(node.name), "", node.initializer];
    if ((ts.isPropertyAssignment(node) || ts.isPropertyDeclaration(node)) && isValue(node.initializer))
      return [node.name, written(node.name), "", node.initializer];
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken && isValue(node.right)) {
      const left = node.left;
      if (ts.isIdentifier(left)) return [left, left.text, "", node.right];
      if (ts.isPropertyAccessExpression(left)) {
        const owner = left.expression;
        if (owner.getText(source) === "module" && left.name.text === "exports") return null;
        const proto = ts.isPropertyAccessExpression(owner) && ts.isIdentifier(owner.expression);
        const prefix = proto && owner.name.text === "prototype" ? owner.expression.text : "";
        return [left.name, left.name.getText(source), prefix, node.right];
      }
    }
    return null;
  }

  function own(node) {
    // [kind, name node, text] of a declaration with a name of its own.
    if (ts.isClassDeclaration(node) || ts.isFunctionDeclaration(node)) {
      const name = node.name || defaultToken(node);
      const kind = ts.isClassDeclaration(node) ? "class" : "callable";
      return name && [kind, name, node.name ? node.name.text : "default"];
    }
    if (ts.isInterfaceDeclaration(node) || ts.isEnumDeclaration(node) || ts.isTypeAliasDeclaration(node))
      return ["class", node.name, node.name.text];
    if (ts.isClassExpression(node) || ts.isFunctionExpression(node)) {
      const kind = ts.isClassExpression(node) ? "class" : "callable";
      if (node.name) return [kind, node.name, node.name.text];
      // `export default (class {})` without parentheses is an assignment of the module.
      return null;
    }
    if (ts.isMethodDeclaration(node) || ts.isMethodSignature(node) || ts.isGetAccessor(node) || ts.isSetAccessor(node)) {
      // An object type or an interface lists accessors as signatures of its own.
      return ["callable", node.name, written(node.name)];
    }
    if (ts.isConstructorDeclaration(node))
      return ["callable", token(node, ts.SyntaxKind.ConstructorKeyword), "constructor"];
    return null;
  }

  function visit(node, scope, methods, isNamed) {
    if (ts.isImportDeclaration(node) || (ts.isExportDeclaration(node) && node.moduleSpecifier)) {
      rows.push(["import", node.moduleSpecifier.text, line(node)]);
    } else if (ts.isImportEqualsDeclaration(node) && ts.isExternalModuleReference(node.moduleReference)) {
      rows.push(["import", node.moduleReference.expression.text, line(node)]);
    } else if (ts.isCallExpression(node) && node.arguments.length) {
      const called = node.expression;
      const from = called.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(called) && called.text === "require");
      if (from && ts.isStringLiteralLike(node.arguments[0])) rows.push(["import", node.arguments[0].text, line(node)]);
    }
    let [inner, within] = [scope, methods];
    const add = (kind, at, name, prefix) => {
      const full = [scope, prefix, name].filter(Boolean).join(".");
      rows.push([kind === "class" ? "class" : methods || prefix ? "method" : "function", full, line(at)]);
      named(node, full);
      inner = full;
      within = kind === "class";
    };
    const binding = bound(node);
    if (binding) {
      add(ts.isClassExpression(binding[3]) ? "class" : "callable", binding[0], binding[1], binding[2]);
      named(binding[3], inner);
      ts.forEachChild(node, (child) => visit(child, child === binding[3] ? inner : scope, child === binding[3] ? within : methods, child === binding[3]));
      return;
    }
    if (ts.isModuleDeclaration(node) && node.name.kind === ts.SyntaxKind.Identifier) {
      inner = scope ? scope + "." + node.name.text : node.name.text;
      within = false;
    } else if (!isNamed) {
      const mine = own(node);
      if (mine) add(mine[0], mine[1], mine[2], "");
      else if (ts.isClassExpression(node)) within = true;
    }
    // Decorators stand before a declaration, and are not in it.
    ts.forEachChild(node, (child) => (ts.isDecorator(child) ? visit(child, scope, methods) : visit(child, inner, within)));
  }

  visit(source, "", false);
  return rows;
}

module.exports = { rowsOf };
if (require.main === module) {
  const [root, files, rejected] = [process.argv[2], {}, {}];
  for (const one of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    try {
      files[one] = read(one, fs.readFileSync(path.join(root, one), "utf8"));
    } catch (error) {
      rejected[one] = String(error.message);
    }
  }
  process.stdout.write(JSON.stringify({ files, rejected }));
}
