// Calls of Java by javac's attribution: java --add-exports (tree, code, util) CallReference.java FOLDER < paths
//
// Prints {"calls": [[file, caller, line, callee file, callee], ...], "unknown": [[file, line, name], ...]}. A call of
// what is declared elsewhere has "" as its callee; `unknown` are calls whose types javac lacks a dependency for.
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MemberReferenceTree;
import com.sun.source.tree.MethodInvocationTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.NewClassTree;
import com.sun.source.tree.VariableTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreeScanner;
import com.sun.tools.javac.code.Flags;
import com.sun.tools.javac.code.Symbol;
import com.sun.tools.javac.tree.JCTree;
import com.sun.tools.javac.tree.TreeInfo;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

public class CallReference {
  static final Map<Symbol, String> NAMES = new HashMap<>();
  static final List<String> CALLS = new ArrayList<>(), UNKNOWN = new ArrayList<>();

  static String quoted(String text) {
    return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
  }

  /** Follows the names of declarations: a constructor is its class, and what has no name adds none. */
  abstract static class Scopes extends TreeScanner<Void, String> {
    abstract void declared(Symbol symbol, String name);

    @Override
    public Void visitClass(ClassTree node, String scope) {
      String name = node.getSimpleName().toString();
      String own = name.isEmpty() ? scope : scope.isEmpty() ? name : scope + "." + name;
      if (!name.isEmpty()) declared(((JCTree.JCClassDecl) node).sym, own);
      return super.visitClass(node, own);
    }

    @Override
    public Void visitMethod(MethodTree node, String scope) {
      JCTree.JCMethodDecl method = (JCTree.JCMethodDecl) node;
      if (method.sym != null && (method.sym.flags() & (Flags.GENERATEDCONSTR | Flags.GENERATED_MEMBER)) != 0) return null;
      String name = node.getName().toString();
      boolean made = name.equals("<init>");
      if (made) name = scope.replaceAll("^.*\\.", "");
      String own = scope.isEmpty() ? name : scope + "." + name;
      if (!made) declared(method.sym, own);
      return super.visitMethod(node, own);
    }
  }

  static class Calls extends Scopes {
    final CompilationUnitTree unit;
    final String file;

    Calls(CompilationUnitTree unit, String file) {
      this.unit = unit;
      this.file = file;
    }

    @Override
    void declared(Symbol symbol, String name) {}

    void add(JCTree node, String scope, Symbol symbol, String name) {
      long line = unit.getLineMap().getLineNumber(TreeInfo.getStartPos(node));
      if (symbol == null || symbol.kind.isResolutionError() || symbol.type == null || symbol.type.isErroneous()) {
        UNKNOWN.add("[" + quoted(file) + "," + line + "," + quoted(name) + "]");
        return;
      }
      Symbol target = symbol.isConstructor() ? symbol.owner : symbol;
      String found = NAMES.getOrDefault(target, "\"\",\"\"");
      CALLS.add("[" + quoted(file) + "," + quoted(scope) + "," + line + "," + found + "," + quoted(name) + "]");
    }

    @Override
    public Void visitMethodInvocation(MethodInvocationTree node, String scope) {
      JCTree.JCMethodInvocation call = (JCTree.JCMethodInvocation) node;
      boolean written = call.pos != call.meth.pos || TreeInfo.name(call.meth).toString().matches("(?!this|super).*");
      if (written) add(call, scope, TreeInfo.symbol(call.meth), TreeInfo.name(call.meth).toString());
      return super.visitMethodInvocation(node, scope);
    }

    @Override
    public Void visitNewClass(NewClassTree node, String scope) {
      JCTree.JCNewClass made = (JCTree.JCNewClass) node;
      Symbol symbol = made.clazz.type == null ? null : made.clazz.type.tsym;
      add(made, scope, symbol, TreeInfo.name(bare(made.clazz)).toString());
      return super.visitNewClass(node, scope);
    }

    static JCTree bare(JCTree tree) {
      if (tree instanceof JCTree.JCTypeApply applied) return bare(applied.clazz);
      return tree instanceof JCTree.JCAnnotatedType annotated ? bare(annotated.underlyingType) : tree;
    }

    @Override
    public Void visitMemberReference(MemberReferenceTree node, String scope) {
      JCTree.JCMemberReference reference = (JCTree.JCMemberReference) node;
      add(reference, scope, reference.sym, reference.name.toString());
      return super.visitMemberReference(node, scope);
    }

    @Override
    public Void visitVariable(VariableTree node, String scope) {
      JCTree.JCVariableDecl variable = (JCTree.JCVariableDecl) node;
      if ((variable.mods.flags & Flags.ENUM) != 0 && variable.init instanceof JCTree.JCNewClass made) {
        // A constant of an enum is no call of its constructor, its arguments and body may have some.
        scan(made.args, scope);
        return scan(made.def, scope);
      }
      return super.visitVariable(node, scope);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Path root = Path.of(arguments[0]).toAbsolutePath();
    List<Path> files = new ArrayList<>();
    BufferedReader paths = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String path; (path = paths.readLine()) != null; ) {
      if (!path.endsWith("module-info.java")) files.add(root.resolve(path));
    }
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8);
    List<String> options = List.of("-proc:none", "-implicit:none", "-Xmaxerrs", "100000", "-nowarn", "-cp", "/nonexistent");
    JavacTask task =
        (JavacTask) compiler.getTask(null, manager, one -> {}, options, null, manager.getJavaFileObjectsFromPaths(files));
    List<CompilationUnitTree> units = new ArrayList<>();
    task.parse().forEach(units::add);
    task.analyze();
    for (CompilationUnitTree unit : units) {
      String file = root.relativize(Path.of(unit.getSourceFile().toUri())).toString();
      new Scopes() {
        @Override
        void declared(Symbol symbol, String name) {
          if (symbol != null) NAMES.put(symbol, quoted(file) + "," + quoted(name));
        }
      }.scan(unit, "");
    }
    for (CompilationUnitTree unit : units) {
      new Calls(unit, root.relativize(Path.of(unit.getSourceFile().toUri())).toString()).scan(unit, "");
    }
    new PrintStream(System.out, true, StandardCharsets.UTF_8)
        .println("{\"calls\":[" + String.join(",\n", CALLS) + "],\"unknown\":[" + String.join(",\n", UNKNOWN) + "]}");
  }
}
