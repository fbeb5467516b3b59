import java.nio.file.{Files, Path}

/** The value of a query as text: a line for each element, or the value itself. */
@main def exec(graph: String, answer: String) = {
  val cpg = io.shiftleft.codepropertygraph.cpgloading.CpgLoader.load(graph)
  val found: Any = {
/*QUERY*/
  }
  val lines = found match {
    case all: IterableOnce[?] => all.iterator.map(String.valueOf)
    case () => Iterator.empty
    case one => Iterator(String.valueOf(one))
  }
  Files.writeString(Path.of(answer), lines.mkString("\n"))
}
