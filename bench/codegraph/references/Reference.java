// Java by javac's tree API: java --add-exports jdk.compiler/com.sun.tools.javac.tree=ALL-UNNAMED Reference.java FOLDER < paths
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.ImportTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreeScanner;
import com.sun.tools.javac.tree.JCTree;
import com.sun.tools.javac.tree.TreeInfo;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;

public class Reference {
  // From the keyword of a type, where javac puts its position, to its name.
  private static final Pattern BETWEEN =
      Pattern.compile("@?\\s*(?:class|interface|enum|record)(?:\\s|/\\*.*?\\*/|//[^\\n]*\\n)+", Pattern.DOTALL);

  static class Source extends SimpleJavaFileObject {
    final String text;

    Source(String path, String text) {
      super(URI.create("string:///" + path.replaceAll("[^A-Za-z0-9/._-]", "_")), Kind.SOURCE);
      this.text = text;
    }

    @Override
    public CharSequence getCharContent(boolean ignoreEncodingErrors) {
      return text;
    }
  }

  static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char one : text.toCharArray()) {
      if (one == '"' || one == '\\') out.append('\\').append(one);
      else if (one < 32) out.append(String.format("\\u%04x", (int) one));
      else out.append(one);
    }
    return out.append('"').toString();
  }

  static class Scan extends TreeScanner<Void, String> {
    final CompilationUnitTree unit;
    final String text;
    final List<String> rows = new ArrayList<>();

    Scan(CompilationUnitTree unit, String text) {
      this.unit = unit;
      this.text = text;
    }

    void add(String kind, String name, int at) {
      rows.add("[" + quoted(kind) + "," + quoted(name) + "," + unit.getLineMap().getLineNumber(at) + "]");
    }

    @Override
    public Void visitImport(ImportTree node, String scope) {
      add("import", node.getQualifiedIdentifier().toString(), TreeInfo.getStartPos((JCTree) node.getQualifiedIdentifier()));
      return null;
    }

    @Override
    public Void visitClass(ClassTree node, String scope) {
      String name = node.getSimpleName().toString();
      if (name.isEmpty()) return super.visitClass(node, scope);
      int at = ((JCTree) node).pos;
      Matcher between = BETWEEN.matcher(text).region(at, text.length());
      if (between.lookingAt()) at = between.end();
      add("class", scope + name, at);
      return super.visitClass(node, scope + name + ".");
    }

    @Override
    public Void visitMethod(MethodTree node, String scope) {
      String name = node.getName().toString();
      if (name.equals("<init>")) name = scope.replaceAll("^(?:.*\\.)?([^.]+)\\.$", "$1");
      add("method", scope + name, ((JCTree) node).pos);
      return super.visitMethod(node, scope + name + ".");
    }
  }

  public static void main(String[] arguments) throws Exception {
    Path root = Path.of(arguments[0]);
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    List<String> files = new ArrayList<>(), rejected = new ArrayList<>();
    BufferedReader paths = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String path; (path = paths.readLine()) != null; ) {
      String text = new String(Files.readAllBytes(root.resolve(path)), StandardCharsets.UTF_8);
      DiagnosticCollector<JavaFileObject> problems = new DiagnosticCollector<>();
      JavacTask task =
          (JavacTask) compiler.getTask(null, null, problems, List.of("-proc:none"), null, List.of(new Source(path, text)));
      CompilationUnitTree unit = task.parse().iterator().next();
      String problem = null;
      for (Diagnostic<? extends JavaFileObject> one : problems.getDiagnostics()) {
        if (one.getKind() == Diagnostic.Kind.ERROR) problem = one.getMessage(null);
      }
      if (problem != null) {
        rejected.add(quoted(path) + ":" + quoted(problem));
        continue;
      }
      Scan scan = new Scan(unit, text);
      scan.scan(unit, "");
      files.add(quoted(path) + ":[" + String.join(",", scan.rows) + "]");
    }
    new PrintStream(System.out, true, StandardCharsets.UTF_8)
        .println("{\"files\":{" + String.join(",\n", files) + "},\"rejected\":{" + String.join(",", rejected) + "}}");
  }
}
