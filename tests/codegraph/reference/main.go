// What the Go files named on stdin declare and import, as go/parser sees it: one JSON array per file.
package main

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
)

func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.ParenExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.SelectorExpr:
		return t.Sel.Name
	case *ast.Ident:
		return t.Name
	}
	return ""
}

func main() {
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Scan() {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, in.Text(), nil, parser.SkipObjectResolution)
		if err != nil {
			out.Encode(nil)
			continue
		}
		rows := [][]any{}
		around := ""
		add := func(kind, name string, pos token.Pos) {
			rows = append(rows, []any{kind, name, files.PositionFor(pos, false).Line})
		}
		visit := func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.ImportSpec:
				path, _ := strconv.Unquote(d.Path.Value)
				add("import", path, d.Path.Pos())
			case *ast.TypeSpec:
				add("class", around+d.Name.Name, d.Name.Pos())
				if listed, ok := d.Type.(*ast.InterfaceType); ok {
					for _, method := range listed.Methods.List {
						for _, name := range method.Names {
							add("method", around+d.Name.Name+"."+name.Name, name.Pos())
						}
					}
				}
			}
			return true
		}
		for _, decl := range file.Decls {
			around = ""
			if f, ok := decl.(*ast.FuncDecl); ok {
				kind, name := "function", f.Name.Name
				if f.Recv != nil && len(f.Recv.List) > 0 {
					kind, name = "method", receiver(f.Recv.List[0].Type)+"."+name
				}
				add(kind, name, f.Name.Pos())
				around = name + "."
			}
			ast.Inspect(decl, visit)
		}
		out.Encode(rows)
	}
}
