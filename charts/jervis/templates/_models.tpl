{{/*
The model of each role, as crds/modelroles.py has it; tests/chart/test_models.py compares both.
*/}}

{{/* A model's name as it is compared: `Qwen3` and `qwen3:latest` are the same. */}}
{{- define "jervis.modelKey" -}}
{{- $name := . | trim | lower | trimPrefix "registry.ollama.ai/" | trimPrefix "library/" -}}
{{- ternary $name (printf "%s:latest" $name) (contains ":" (splitList "/" $name | last)) -}}
{{- end }}

{{/* The name that backends know: (dict "root" $ "model" "gpt-4o"). An alias may stand for another one. */}}
{{- define "jervis.modelTarget" -}}
{{- $targets := dict -}}
{{- range $alias, $target := .root.Values.router.aliases }}{{ $_ := set $targets (include "jervis.modelKey" $alias) $target }}{{ end -}}
{{- $model := .model -}}
{{- range $targets }}{{ $model = get $targets (include "jervis.modelKey" $model) | default $model }}{{ end -}}
{{- $model -}}
{{- end }}

{{/*
The roles that have a model, as JSON: [{role, model, numCtx}], without numCtx where the GpuBackend's is used. Another
window loads a model anew: roles that share one, by whatever alias, ask for the largest of their windows, and no less
than each needs.
*/}}
{{- define "jervis.roles" -}}
{{- $models := .Values.models -}}
{{- $chat := $models.chat | default "" -}}
{{- $windows := $models.numCtx | default dict -}}
{{- $usual := dict "orchestrator" "qwen3-coder:30b" "planner" "qwen3:14b" "qualifier" "qwen2.5:7b" "decision" "gpt-oss:120b" -}}
{{- $least := dict "orchestrator" 8192 "planner" 4096 "qualifier" 8192 "fast" 2048 "decision" 8192 "vision" 4096 -}}
{{- $named := list -}}
{{- $largest := dict -}}
{{- $sharing := dict -}}
{{- range $role := list "orchestrator" "planner" "qualifier" "fast" "decision" "embedding" "vision" "reranker" -}}
{{- $talks := or (hasKey $usual $role) (eq $role "fast") -}}
{{- $model := index $models $role -}}
{{- if kindIs "invalid" $model -}}
{{- $model = ternary ($chat | default (get $usual $role)) "" (hasKey $usual $role) -}}
{{- end -}}
{{- if $model -}}
{{- $key := include "jervis.modelTarget" (dict "root" $ "model" $model) | include "jervis.modelKey" -}}
{{- $window := int64 (index $windows $role | default (ternary (index $windows "chat" | default 0) 0 $talks)) -}}
{{- $named = append $named (dict "role" $role "model" $model "key" $key) -}}
{{- $_ := set $largest $key (max (get $largest $key | default 0 | int64) $window) -}}
{{- $_ := set $sharing $key (append (get $sharing $key | default list) $role) -}}
{{- end -}}
{{- end -}}
{{- $found := list -}}
{{- range $one := $named -}}
{{- $window := get $largest $one.key | int64 -}}
{{- $roles := get $sharing $one.key -}}
{{- if and $window (gt (len $roles) 1) -}}
{{- range $role := $roles }}{{ $window = max $window (get $least $role | default 0 | int64) }}{{ end -}}
{{- end -}}
{{- $entry := dict "role" $one.role "model" $one.model -}}
{{- if $window }}{{ $_ := set $entry "numCtx" (int64 $window) }}{{ end -}}
{{- $found = append $found $entry -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* One role as JSON: (dict "root" $ "role" "planner"); {"model": ""} where it has no model. */}}
{{- define "jervis.role" -}}
{{- $found := dict "model" "" -}}
{{- range $one := include "jervis.roles" .root | fromJsonArray -}}
{{- if eq $one.role $.role }}{{ $found = $one }}{{ end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* The models as JSON: {role: name that backends know}, "" for a role that has none. */}}
{{- define "jervis.modelNames" -}}
{{- $found := dict "planner" "" "fast" "" "reranker" "" -}}
{{- range $one := include "jervis.roles" . | fromJsonArray }}{{ $_ := set $found $one.role (include "jervis.modelTarget" (dict "root" $ "model" $one.model)) }}{{ end -}}
{{- toJson $found -}}
{{- end }}

{{/*
The context windows that processes ask for, as JSON: [{role, model, numCtx}]. `model` is the name that backends know.
*/}}
{{- define "jervis.windows" -}}
{{- $found := list -}}
{{- range $one := include "jervis.roles" . | fromJsonArray -}}
{{- $model := include "jervis.modelTarget" (dict "root" $ "model" $one.model) -}}
{{- if $one.numCtx }}{{ $found = append $found (dict "role" $one.role "model" $model "numCtx" (int64 $one.numCtx)) }}{{ end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}
