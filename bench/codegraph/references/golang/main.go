// Go by go/parser: main FOLDER < paths.
package main

import (
	"bufio"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

type document struct {
	Files    map[string][][3]any `json:"files"`
	Rejected map[string]string   `json:"rejected"`
}

// receiver is the name of the type that a method belongs to, without pointer and type parameters.
func receiver(expr ast.Expr) string {
	switch one := expr.(type) {
	case *ast.StarExpr:
		return receiver(one.X)
	case *ast.ParenExpr:
		return receiver(one.X)
	case *ast.IndexExpr:
		return receiver(one.X)
	case *ast.IndexListExpr:
		return receiver(one.X)
	case *ast.Ident:
		return one.Name
	}
	return ""
}

func main() {
	root := os.Args[1]
	found := document{map[string][][3]any{}, map[string]string{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		path := lines.Text()
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.SkipObjectResolution)
		if err != nil {
			found.Rejected[path] = err.Error()
			continue
		}
		rows := [][3]any{}
		// PositionFor: the lines of the file itself, not those that //line comments claim.
		add := func(kind, name string, at token.Pos) {
			rows = append(rows, [3]any{kind, name, set.PositionFor(at, false).Line})
		}
		for _, one := range file.Imports {
			module, _ := strconv.Unquote(one.Path.Value)
			add("import", module, one.Path.Pos())
		}
		scope := ""
		var visit func(node ast.Node) bool
		visit = func(node ast.Node) bool {
			switch one := node.(type) {
			case *ast.FuncDecl:
				kind, name := "function", one.Name.Name
				if one.Recv != nil && len(one.Recv.List) > 0 {
					kind = "method"
					if owner := receiver(one.Recv.List[0].Type); owner != "" {
						name = owner + "." + name
					}
				}
				add(kind, name, one.Name.Pos())
				if one.Body != nil {
					scope = name + "."
					ast.Inspect(one.Body, visit)
					scope = ""
				}
				return false
			case *ast.TypeSpec:
				name := scope + one.Name.Name
				add("class", name, one.Name.Pos())
			}
			return true
		}
		ast.Inspect(file, visit)
		found.Files[path] = rows
	}
	json.NewEncoder(os.Stdout).Encode(found)
}
