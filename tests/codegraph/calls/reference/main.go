// The calls of the Go package in a directory as go/types sees them, of declarations of the package itself: one JSON
// array of [caller file, caller, callee file, callee, line] per call. Build constraints are those of linux/amd64.
package main

import (
	"encoding/json"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"log"
	"os"
	"path/filepath"
)

func named(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return "?"
}

func qname(f *types.Func) string {
	if r := f.Type().(*types.Signature).Recv(); r != nil {
		return named(r.Type()) + "." + f.Name()
	}
	return f.Name()
}

func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch t := fun.(type) {
	case *ast.IndexExpr:
		fun = ast.Unparen(t.X)
	case *ast.IndexListExpr:
		fun = ast.Unparen(t.X)
	}
	switch t := fun.(type) {
	case *ast.Ident:
		f, _ := info.Uses[t].(*types.Func)
		return f
	case *ast.SelectorExpr:
		f, _ := info.Uses[t.Sel].(*types.Func)
		return f
	}
	return nil
}

func main() {
	dir := os.Args[1]
	build.Default.GOOS, build.Default.GOARCH, build.Default.CgoEnabled = "linux", "amd64", true
	found, err := build.ImportDir(dir, 0)
	if err != nil {
		log.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range append(found.GoFiles, found.TestGoFiles...) {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			log.Fatal(err)
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.Default()}
	pkg, err := config.Check(found.Name, fset, files, info)
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	for _, file := range files {
		for _, declaration := range file.Decls {
			caller := ""
			if f, ok := declaration.(*ast.FuncDecl); ok {
				caller = qname(info.Defs[f.Name].(*types.Func))
			}
			ast.Inspect(declaration, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f := callee(info, call); f != nil && f.Pkg() == pkg {
					f = f.Origin()
					at, of := fset.Position(call.Pos()), fset.Position(f.Pos())
					out.Encode([]any{filepath.Base(at.Filename), caller, filepath.Base(of.Filename), qname(f), at.Line})
				}
				return true
			})
		}
	}
}
