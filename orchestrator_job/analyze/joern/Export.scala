/** One language of a source tree as a code property graph of Joern, and of that what the knowledge base takes.
  *
  * Usage: Export LANGUAGE SOURCE EXPORT [GRAPH]. EXPORT becomes a JSON object: `types`, `methods`, and pairs of their
  * indexes, `calls` with a line; see codegraph/api/cpg.py. GRAPH, if given, becomes the graph itself, for queries.
  *
  * Left out is what no person wrote or what is not in the tree: operators, lambdas and other synthetic methods (their
  * calls belong to the method around them), stubs of libraries, and the syntax and flow inside of methods.
  */
package jervis

import io.joern.c2cpg.{C2Cpg, Config as CConfig}
import io.joern.javasrc2cpg.{JavaSrc2Cpg, Config as JavaConfig}
import io.joern.pysrc2cpg.{Py2CpgOnFileSystem, Py2CpgOnFileSystemConfig}
import io.joern.x2cpg.frontendspecific.pysrc2cpg as python
import io.joern.x2cpg.passes.callgraph.NaiveCallLinker
import io.joern.x2cpg.passes.frontend.XTypeRecoveryConfig
import io.shiftleft.codepropertygraph.generated.Cpg
import io.shiftleft.codepropertygraph.generated.nodes.{Method, TypeDecl}
import io.shiftleft.semanticcpg.language.*

import java.nio.file.{Files, Path}
import scala.collection.mutable

object Export:
  private val Most = 200_000 // of each kind; the knowledge base takes no more
  private val Word = """[A-Za-z_$][\w$.]*""".r
  private val Constructor = "<init>"

  def main(arguments: Array[String]): Unit =
    val Array(language, source, target, more*) = arguments: @unchecked
    val root = Path.of(source).toRealPath()
    val graph = more.headOption.map(Path.of(_)).getOrElse(Files.createTempFile("graph", ".cpg"))
    Files.deleteIfExists(graph)
    val cpg = made(language, root.toString, graph.toString)
    try Files.writeString(Path.of(target), ujson.write(Exporter(cpg, root).whole()))
    finally
      cpg.close()
      if more.isEmpty then Files.deleteIfExists(graph)

  private def made(language: String, source: String, graph: String): Cpg = language match
    case "java" =>
      // What projects depend on is not fetched: the pod has no network.
      val config = JavaConfig().withKeepTypeArguments(true).withInputPath(source).withOutputPath(graph)
      JavaSrc2Cpg().createCpgWithOverlays(config).get
    case "c" => C2Cpg().createCpgWithOverlays(CConfig().withInputPath(source).withOutputPath(graph)).get
    case "python" =>
      val config = Py2CpgOnFileSystemConfig().withInputPath(source).withOutputPath(graph)
      val cpg = Py2CpgOnFileSystem().createCpgWithOverlays(config).get
      // By its bare name a call is linked to whatever is called so: most of those edges are wrong.
      val passes = python.postProcessingPasses(cpg, XTypeRecoveryConfig(enabledDummyTypes = false))
      passes.filterNot(_.isInstanceOf[NaiveCallLinker]).foreach(_.createAndApply())
      cpg
    case other => throw IllegalArgumentException(s"no front end for $other")

  private class Exporter(cpg: Cpg, root: Path):
    private var truncated = false

    def whole(): ujson.Obj =
      val methods = first(cpg.method.filter(written).toSeq.sortBy(one => (file(one.filename), line(one), one.fullName)))
      // Front ends have a type for each function, too.
      val functions = cpg.method.fullName.toSet
      val types = first(
        cpg.typeDecl.filter(written).filterNot(one => functions(one.fullName)).toSeq
          .sortBy(one => (file(one.filename), line(one), one.fullName))
      )
      val typeAt = types.map(_.fullName).zipWithIndex.reverse.toMap
      val methodAt = methods.map(_.fullName).zipWithIndex.reverse.toMap
      val around = methods.zipWithIndex.groupBy((one, _) => one.filename)
      val inside = methods.groupBy(owner)
      def linked(texts: TypeDecl => Seq[String]): Seq[Seq[Int]] =
        for
          (one, at) <- types.zipWithIndex
          text <- texts(one)
          other <- named(typeAt, one, text)
          if other != at
        yield Seq(at, other)
      ujson.Obj(
        "types" -> types.map(one => ujson.Obj("name" -> plain(one.fullName), "file" -> file(one.filename), "line" -> line(one))),
        "methods" -> methods.map(one =>
          ujson.Obj(
            "name" -> (if one.name == Constructor then simple(owner(one)) else one.name),
            "type" -> plain(owner(one)),
            "file" -> file(one.filename),
            "line" -> line(one),
            "signature" -> signature(one)
          )
        ),
        "calls" -> pairs(calls(methodAt, around)),
        "extends" -> pairs(linked(_.inheritsFromTypeFullName.toSeq)),
        "usesType" -> pairs(linked(one => used(one, inside.getOrElse(one.fullName, Seq.empty)))),
        "truncated" -> truncated
      )

    /** The declared target alone: what may override it follows from `extends`. */
    private def calls(methodAt: Map[String, Int], around: Map[String, Seq[(Method, Int)]]): Seq[Seq[Int]] =
      cpg.call.filterNot(_.name.startsWith("<operator")).flatMap { call =>
        for
          callee <- methodAt.get(call.methodFullName).orElse(
            call.callee(using NoResolve).map(_.fullName).flatMap(methodAt.get).toSeq.distinct match
              case Seq(one) => Some(one)
              case _        => None
          )
          caller <- methodAt.get(call.method.fullName).orElse {
            val at = call.lineNumber.getOrElse(0)
            around.getOrElse(call.method.filename, Seq.empty).filter((one, _) => line(one) <= at && at <= one.lineNumberEnd.getOrElse(0))
              .maxByOption((one, _) => line(one)).map(_(1)).filter(_ != callee)
          }
        yield Seq(caller, callee, call.lineNumber.getOrElse(0))
      }.toSeq

    private def written(one: Method): Boolean =
      !one.isExternal && one.lineNumber.isDefined && inTree(one.filename) && (one.name == Constructor || !one.name.startsWith("<")) &&
        !one.name.contains("lambda>") && !one.fullName.contains("<meta") && !one.fullName.contains("<fake")

    private def written(one: TypeDecl): Boolean =
      !one.isExternal && one.lineNumber.isDefined && inTree(one.filename) && !one.name.startsWith("<") &&
        !one.fullName.contains("<meta") && !one.name.contains("anonymous") && one.aliasTypeFullName.isEmpty

    /** The types of fields, parameters and results; a receiver is none. */
    private def used(one: TypeDecl, methods: Seq[Method]): Seq[String] =
      val fields = one.member.flatMap(field => field.typeFullName +: field.dynamicTypeHintFullName).toSeq
      val parameters = methods.flatMap(_.parameter.filter(_.index > 0)).flatMap(each => each.typeFullName +: each.dynamicTypeHintFullName)
      val results = methods.map(_.methodReturn).flatMap(each => each.typeFullName +: each.dynamicTypeHintFullName)
      fields ++ parameters ++ results

    /** Which types of the tree a type's text names: `struct shape *`, `java.util.List<app.Shape>`. A name without its
      * namespace is looked for in those around the type that uses it, from the inside out, then among imports.
      */
    private def named(typeAt: Map[String, Int], user: TypeDecl, text: String): Seq[Int] =
      typeAt.get(text).map(Seq(_)).getOrElse {
        val around = Iterator.iterate(user.fullName)(_.split('.').init.mkString(".")).takeWhile(_.nonEmpty).map(_ + ".").toSeq :+ ""
        Word.findAllIn(text.replace("::", ".")).flatMap { name =>
          val meant = around.map(_ + name) ++ brought.getOrElse((file(user.filename), name), Seq.empty)
          meant.flatMap(typeAt.get).headOption
        }.toSeq
      }

    /** Python: (file, local name) to the full names that an import of it may mean. */
    private lazy val brought: Map[(String, String), Seq[String]] =
      cpg.imports.flatMap { one =>
        for
          local <- one.importedAs
          entity <- one.importedEntity
          from <- one.call.file.name.headOption.map(file)
        yield
          val dots = entity.takeWhile(_ == '.').length
          val parts = entity.drop(dots).split('.')
          val folder = from.split('/').dropRight(dots)
          val roots = if dots > 0 then Seq(folder.toSeq) else Seq(Seq.empty, Seq("src"), Seq("lib"))
          val paths = roots.map(_ ++ parts.init).map(_.mkString("/"))
          (from, local) -> paths.flatMap(path => Seq(s"$path.py", s"$path/__init__.py")).map(path => s"$path:<module>.${parts.last}")
      }.toMap

    /** The full name of its type, "" for a function; C++ declares methods outside of it, too. */
    private def owner(one: Method): String =
      one.typeDecl.fullName.headOption.filterNot(_.endsWith("<global>")).getOrElse {
        if one.filename.endsWith(".py") then "" else one.fullName.takeWhile(_ != ':').split('.').dropRight(1).mkString(".")
      }

    private def signature(one: Method): String = if one.signature.startsWith("<") then "" else one.signature.take(1000)

    private def plain(fullName: String): String = fullName.replace('$', '.').take(1000)

    private def simple(fullName: String): String = plain(fullName).split("[.:]").last

    private def line(one: Method | TypeDecl): Int = (one match
      case method: Method => method.lineNumber
      case kind: TypeDecl => kind.lineNumber
    ).getOrElse(0)

    private def inTree(name: String): Boolean = !name.startsWith("<") && Files.isRegularFile(root.resolve(name))

    private def file(name: String): String =
      val path = Path.of(name)
      (if path.isAbsolute && path.startsWith(root) then root.relativize(path) else path).toString

    private def pairs(found: Seq[Seq[Int]]): Seq[Seq[Int]] = first(found.distinctBy(_.take(2)).sortBy(one => (one(0), one(1))))

    private def first[A](found: Seq[A]): Seq[A] =
      truncated ||= found.size > Most
      found.take(Most)
