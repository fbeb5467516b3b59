"""The operator as a process, against a real apiserver, a real HTTP knowledge base stand-in and a real MongoDB wire."""
