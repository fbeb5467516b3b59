// The sandbox image's only program.
module jervis.dev/hack/tools/pause

go 1.24.0
