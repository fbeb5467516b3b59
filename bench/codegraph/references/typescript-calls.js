// Calls by TypeScript's type checker: node typescript-calls.js FOLDER < paths; NODE_PATH has the compiler.
// A site is [caller file, caller, line, what, callees]: `what` is "edge" with [callee file, callee] for each declaration
// of the project, "outside" for one of a library, "value" where a variable or parameter is called, "unknown" else.
"use strict";
const fs = require("fs");
const path = require("path");
const ts = require("typescript");
const { rowsOf } = require("./typescript.js");

const root = fs.realpathSync(process.argv[2]);
const paths = fs.readFileSync(0, "utf8").split("\n").filter(Boolean);
const options = {
  allowJs: true,
  checkJs: false,
  noEmit: true,
  skipLibCheck: true,
  strict: true,
  types: [],
  experimentalDecorators: true,
  jsx: ts.JsxEmit.Preserve,
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
};
const configured = path.join(root, "tsconfig.json");
if (fs.existsSync(configured)) {
  const read = ts.parseConfigFileTextToJson(configured, fs.readFileSync(configured, "utf8"));
  const compiler = (read.config || {}).compilerOptions || {};
  if (compiler.paths) Object.assign(options, { paths: compiler.paths, baseUrl: path.join(root, compiler.baseUrl || ".") });
}
const program = ts.createProgram(paths.map((one) => path.join(root, one)), options);
const checker = program.getTypeChecker();
const inside = new Map();
const names = new Map();
for (const one of paths) {
  const source = program.getSourceFile(path.join(root, one));
  if (!source) continue;
  inside.set(source, one);
  rowsOf(source, (node, name) => names.set(node, name));
}

const isClass = (node) => ts.isClassDeclaration(node) || ts.isClassExpression(node);
const isFunction = (node) => ts.isFunctionLike(node);

function callable(node) {
  // The node that a call of this declaration names: a constructor is its class.
  if (ts.isConstructorDeclaration(node)) return callable(node.parent);
  if (isClass(node) || isFunction(node)) return names.has(node) ? node : null;
  const value = node.initializer || (ts.isBinaryExpression(node) ? node.right : null);
  if (value && (isClass(value) || isFunction(value)) && names.has(value)) return value;
  const assigned = node.parent && ts.isBinaryExpression(node.parent) && node.parent.left === node ? node.parent.right : null;
  return assigned && (isClass(assigned) || isFunction(assigned)) && names.has(assigned) ? assigned : null;
}

function symbolOf(expression) {
  let found = checker.getSymbolAtLocation(ts.isPropertyAccessExpression(expression) ? expression.name : expression);
  if (found && found.flags & ts.SymbolFlags.Alias) found = checker.getAliasedSymbol(found);
  return found;
}

function declarations(node, called) {
  let expression = called;
  while (ts.isParenthesizedExpression(expression) || ts.isNonNullExpression(expression)) expression = expression.expression;
  const found = [];
  const symbol = symbolOf(expression);
  const isNew = ts.isNewExpression(node) || expression.kind === ts.SyntaxKind.SuperKeyword;
  for (const one of (symbol && symbol.declarations) || []) found.push(one);
  if (isNew) {
    const type = checker.getTypeAtLocation(expression);
    for (const one of ((type.symbol && type.symbol.declarations) || []).filter(isClass)) found.push(one);
  }
  const own = found.map(callable).filter((one) => one && (!isNew || isClass(one) || !ts.isMethodSignature(one)));
  if (own.length) return [own, found];
  const signature = checker.getResolvedSignature(node);
  const declared = signature && signature.declaration;
  const wanted = declared && callable(declared);
  return [wanted ? [wanted] : [], declared ? [declared, ...found] : found];
}

const sites = [];
function visit(node, file, caller) {
  let scope = caller;
  if (names.has(node)) scope = names.get(node);
  let called = null;
  if (ts.isCallExpression(node) && node.expression.kind !== ts.SyntaxKind.ImportKeyword) called = node.expression;
  else if (ts.isNewExpression(node)) called = node.expression;
  else if (ts.isTaggedTemplateExpression(node)) called = node.tag;
  else if (ts.isJsxOpeningElement(node) || ts.isJsxSelfClosingElement(node)) called = node.tagName;
  const source = node.getSourceFile();
  if (called && !(ts.isIdentifier(called) && called.text === "require")) {
    const at = ts.isPropertyAccessExpression(called) ? called.name : called;
    const line = source.getLineAndCharacterOfPosition(at.getStart(source)).line + 1;
    let [own, all] = [[], []];
    try {
      [own, all] = declarations(node, called);
    } catch (error) {
      all = [];
    }
    const targets = new Map();
    for (const one of own) {
      const where = inside.get(one.getSourceFile());
      if (where) targets.set(where + ":" + names.get(one), [where, names.get(one)]);
    }
    const outside = all.length && all.every((one) => !inside.has(one.getSourceFile()));
    const what = targets.size ? "edge" : outside ? "outside" : all.length ? "value" : "unknown";
    sites.push([file, scope, line, what, [...targets.values()]]);
  }
  ts.forEachChild(node, (child) => visit(child, file, ts.isDecorator(child) ? caller : scope));
}
for (const [source, file] of inside) visit(source, file, "");
process.stdout.write(JSON.stringify({ sites }));
