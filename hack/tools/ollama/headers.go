//go:build headers

// Package headers holds what Ollama's C++ parts include and its module leaves out: miniaudio.h comes with malgo.
package headers

import _ "github.com/gen2brain/malgo"
