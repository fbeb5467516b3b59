// Kotlin by the compiler's own parser (PSI): java -cp LIB/*:CLASSES KotlinReference FOLDER < paths
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jetbrains.kotlin.cli.jvm.compiler.EnvironmentConfigFiles;
import org.jetbrains.kotlin.cli.jvm.compiler.KotlinCoreEnvironment;
import org.jetbrains.kotlin.com.intellij.openapi.util.Disposer;
import org.jetbrains.kotlin.com.intellij.psi.PsiElement;
import org.jetbrains.kotlin.com.intellij.psi.util.PsiTreeUtil;
import org.jetbrains.kotlin.config.CommonConfigurationKeys;
import org.jetbrains.kotlin.cli.common.messages.MessageCollector;
import org.jetbrains.kotlin.config.CompilerConfiguration;
import org.jetbrains.kotlin.psi.KtClass;
import org.jetbrains.kotlin.psi.KtClassOrObject;
import org.jetbrains.kotlin.psi.KtEnumEntry;
import org.jetbrains.kotlin.psi.KtFile;
import org.jetbrains.kotlin.psi.KtImportDirective;
import org.jetbrains.kotlin.psi.KtNamedFunction;
import org.jetbrains.kotlin.psi.KtObjectDeclaration;
import org.jetbrains.kotlin.psi.KtPsiFactory;
import org.jetbrains.kotlin.psi.KtSecondaryConstructor;
import org.jetbrains.kotlin.psi.KtTypeAlias;

public class KotlinReference {
  static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char one : text.toCharArray()) {
      if (one == '"' || one == '\\') out.append('\\').append(one);
      else if (one < 32) out.append(String.format("\\u%04x", (int) one));
      else out.append(one);
    }
    return out.append('"').toString();
  }

  static final class Scan {
    final String text;
    final int[] starts;
    final List<String> rows = new ArrayList<>();

    Scan(String text) {
      this.text = text;
      starts = java.util.stream.IntStream.concat(
          java.util.stream.IntStream.of(0),
          java.util.stream.IntStream.range(0, text.length()).filter(at -> text.charAt(at) == '\n').map(at -> at + 1)).toArray();
    }

    void add(String kind, String name, PsiElement at) {
      int found = java.util.Arrays.binarySearch(starts, at.getTextRange().getStartOffset());
      rows.add("[" + quoted(kind) + "," + quoted(name) + "," + (found >= 0 ? found + 1 : -found - 1) + "]");
    }

    void walk(PsiElement node, String scope, boolean member) {
      String inner = scope;
      boolean members = member;
      if (node instanceof KtImportDirective one) {
        if (one.getImportPath() != null && one.getImportedReference() != null)
          add("import", one.getImportPath().getPathStr(), one.getImportedReference());
        return;
      } else if (node instanceof KtEnumEntry) {
        members = true;
      } else if (node instanceof KtClassOrObject one) {
        members = true;
        // A companion without a name has the name Companion, at its keyword.
        boolean companion = one instanceof KtObjectDeclaration object && object.isCompanion();
        if (one.getName() != null && (one.getNameIdentifier() != null || companion)) {
          inner = scope + one.getName() + ".";
          PsiElement at = one.getNameIdentifier() != null ? one.getNameIdentifier() : ((KtObjectDeclaration) one).getObjectKeyword();
          add("class", scope + one.getName(), at);
        }
      } else if (node instanceof KtTypeAlias one && one.getNameIdentifier() != null) {
        add("class", scope + one.getName(), one.getNameIdentifier());
      } else if (node instanceof KtNamedFunction one && one.getNameIdentifier() != null) {
        inner = scope + one.getName() + ".";
        add(member ? "method" : "function", scope + one.getName(), one.getNameIdentifier());
        members = false;
      } else if (node instanceof KtSecondaryConstructor one) {
        inner = scope + "constructor.";
        add("method", scope + "constructor", one.getConstructorKeyword());
        members = false;
      }
      for (PsiElement child = node.getFirstChild(); child != null; child = child.getNextSibling()) walk(child, inner, members);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Path root = Path.of(arguments[0]);
    CompilerConfiguration configuration = new CompilerConfiguration();
    configuration.put(CommonConfigurationKeys.MESSAGE_COLLECTOR_KEY, MessageCollector.Companion.getNONE());
    configuration.put(CommonConfigurationKeys.MODULE_NAME, "reference");
    KotlinCoreEnvironment environment = KotlinCoreEnvironment.createForProduction(
        Disposer.newDisposable(), configuration, EnvironmentConfigFiles.JVM_CONFIG_FILES);
    KtPsiFactory factory = new KtPsiFactory(environment.getProject(), false);
    List<String> files = new ArrayList<>(), rejected = new ArrayList<>();
    BufferedReader paths = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String path; (path = paths.readLine()) != null; ) {
      String text = new String(Files.readAllBytes(root.resolve(path)), StandardCharsets.UTF_8).replace("\r\n", "\n");
      KtFile file = factory.createFile(root.resolve(path).getFileName().toString(), text);
      if (PsiTreeUtil.hasErrorElements(file)) {
        rejected.add(quoted(path) + ":\"an error element\"");
        continue;
      }
      Scan scan = new Scan(text);
      scan.walk(file, "", false);
      files.add(quoted(path) + ":[" + String.join(",", scan.rows) + "]");
    }
    new PrintStream(System.out, true, StandardCharsets.UTF_8)
        .println("{\"files\":{" + String.join(",\n", files) + "},\"rejected\":{" + String.join(",", rejected) + "}}");
  }
}
