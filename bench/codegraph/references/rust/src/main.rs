//! Rust by syn: `reference FOLDER < paths`.

use quote::ToTokens;
use serde_json::{json, Map, Value};
use std::io::BufRead;
use syn::visit::{self, Visit};

#[derive(Default)]
struct Scan {
    rows: Vec<Value>,
    names: Vec<String>,
    /// Whether what is around next is a type.
    methods: bool,
}

impl Scan {
    fn qualified(&self, name: &str) -> String {
        let mut parts = self.names.clone();
        parts.push(name.to_string());
        parts.join(".")
    }

    fn add(&mut self, kind: &str, ident: &syn::Ident) {
        let name = self.qualified(&ident.to_string());
        self.rows.push(json!([kind, name, ident.span().start().line]));
    }

    fn callable(&mut self, ident: &syn::Ident) {
        let kind = if self.methods { "method" } else { "function" };
        self.add(kind, ident);
    }

    fn within(&mut self, name: String, methods: bool, walk: impl FnOnce(&mut Self)) {
        self.names.push(name);
        let before = std::mem::replace(&mut self.methods, methods);
        walk(self);
        self.methods = before;
        self.names.pop();
    }

    fn import(&mut self, prefix: &str, tree: &syn::UseTree, line: usize) {
        let joined = |name: &str| {
            if prefix.is_empty() { name.to_string() } else if prefix == "::" { format!("::{name}") } else { format!("{prefix}::{name}") }
        };
        match tree {
            syn::UseTree::Path(path) => self.import(&joined(&path.ident.to_string()), &path.tree, line),
            syn::UseTree::Name(name) => self.leaf(prefix, &joined(&name.ident.to_string()), line),
            syn::UseTree::Rename(name) => self.leaf(prefix, &joined(&name.ident.to_string()), line),
            syn::UseTree::Glob(_) => self.leaf(prefix, &joined("*"), line),
            syn::UseTree::Group(group) => group.items.iter().for_each(|one| self.import(prefix, one, line)),
        }
    }

    fn leaf(&mut self, prefix: &str, path: &str, line: usize) {
        let path = if path.ends_with("::self") { prefix } else { path };
        self.rows.push(json!(["import", path, line]));
    }
}

/// The name of an `impl`'s target: references and pointers looked through, paths and type arguments left out.
fn target(kind: &syn::Type) -> String {
    match kind {
        syn::Type::Reference(one) => target(&one.elem),
        syn::Type::Ptr(one) => target(&one.elem),
        syn::Type::Paren(one) => target(&one.elem),
        syn::Type::Group(one) => target(&one.elem),
        syn::Type::Path(one) => one.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        syn::Type::TraitObject(one) => one
            .bounds
            .iter()
            .find_map(|bound| match bound {
                syn::TypeParamBound::Trait(one) => one.path.segments.last().map(|last| last.ident.to_string()),
                _ => None,
            })
            .unwrap_or_default(),
        other => other.to_token_stream().to_string().split_whitespace().collect(),
    }
}

impl<'ast> Visit<'ast> for Scan {
    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        self.callable(&node.sig.ident);
        self.within(node.sig.ident.to_string(), false, |inner| visit::visit_item_fn(inner, node));
    }
    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        self.callable(&node.sig.ident);
        self.within(node.sig.ident.to_string(), false, |inner| visit::visit_impl_item_fn(inner, node));
    }
    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        self.callable(&node.sig.ident);
        self.within(node.sig.ident.to_string(), false, |inner| visit::visit_trait_item_fn(inner, node));
    }
    fn visit_foreign_item_fn(&mut self, node: &'ast syn::ForeignItemFn) {
        self.callable(&node.sig.ident);
    }
    fn visit_item_struct(&mut self, node: &'ast syn::ItemStruct) {
        self.add("class", &node.ident);
        self.within(node.ident.to_string(), true, |inner| visit::visit_item_struct(inner, node));
    }
    fn visit_item_enum(&mut self, node: &'ast syn::ItemEnum) {
        self.add("class", &node.ident);
        self.within(node.ident.to_string(), true, |inner| visit::visit_item_enum(inner, node));
    }
    fn visit_item_union(&mut self, node: &'ast syn::ItemUnion) {
        self.add("class", &node.ident);
    }
    fn visit_item_trait(&mut self, node: &'ast syn::ItemTrait) {
        self.add("class", &node.ident);
        self.within(node.ident.to_string(), true, |inner| visit::visit_item_trait(inner, node));
    }
    fn visit_item_type(&mut self, node: &'ast syn::ItemType) {
        self.add("class", &node.ident);
    }
    fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
        self.within(node.ident.to_string(), false, |inner| visit::visit_item_mod(inner, node));
    }
    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        self.within(target(&node.self_ty), true, |inner| visit::visit_item_impl(inner, node));
    }
    fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
        let prefix = if node.leading_colon.is_some() { "::" } else { "" };
        self.import(prefix, &node.tree, node.use_token.span.start().line);
    }
    fn visit_item_extern_crate(&mut self, node: &'ast syn::ItemExternCrate) {
        self.rows.push(json!(["import", node.ident.to_string(), node.extern_token.span.start().line]));
    }
}

fn read(root: &std::path::Path, path: &str) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(root.join(path)).map_err(|error| error.to_string())?;
    let file = syn::parse_file(&text).map_err(|error| error.to_string())?;
    let mut scan = Scan::default();
    scan.visit_file(&file);
    Ok(scan.rows)
}

fn all() {
    let root = std::path::PathBuf::from(std::env::args().nth(1).expect("a folder"));
    let (mut files, mut rejected) = (Map::new(), Map::new());
    for path in std::io::stdin().lock().lines().map_while(Result::ok) {
        match read(&root, &path) {
            Ok(rows) => files.insert(path, Value::Array(rows)),
            Err(error) => rejected.insert(path, Value::String(error)),
        };
    }
    println!("{}", json!({"files": files, "rejected": rejected}));
}

fn main() {
    // Sources nest deeper than the stack of the first thread.
    std::thread::Builder::new().stack_size(1 << 29).spawn(all).expect("a thread").join().expect("an end");
}
