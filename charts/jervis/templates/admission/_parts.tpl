{{/*
The name of a policy and its binding: (dict "root" $ "what" "pendingtask-status"). They are objects of the cluster. A
namespace has no dot, so two releases never meet, whatever they are called.
*/}}
{{- define "jervis.admission.name" -}}
{{- printf "%s.%s.%s" .root.Release.Namespace (include "jervis.fullname" .root) .what -}}
{{- end }}

{{/*
kind, metadata and the fixed part of a policy's spec; the caller goes on with `matchConstraints` in the same spec.
*/}}
{{- define "jervis.admission.policy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "jervis.admission.name" . }}
  labels:
    {{- include "jervis.labels" (dict "root" .root "component" "admission") | nindent 4 }}
spec:
  failurePolicy: Fail
{{- end }}

{{/*
Its binding: only in the namespaces that this release serves, or in the release's own with "home" true. Namespaces that are
chosen by their labels have a binding of their own, before the other one, to which the caller may add. With "everywhere" true
it is bound to all.
*/}}
{{- define "jervis.admission.binding" -}}
{{- $labels := get (.root.Values.watchNamespaceSelector | default dict) "matchLabels" }}
{{- if .everywhere }}
{{- include "jervis.admission.bound" (merge (dict "name" "") .) }}
{{- else }}
{{- if and $labels (not .home) }}
{{- include "jervis.admission.bound" (merge (dict "name" "-by-label") .) }}
  matchResources:
    namespaceSelector:
      matchLabels:
        {{- toYaml $labels | nindent 8 }}
---
{{- end }}
{{ include "jervis.admission.bound" (merge (dict "name" "") .) }}
  matchResources:
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values:
            {{- ternary (list .root.Release.Namespace) (include "jervis.watchNamespaces" .root | fromJsonArray) (.home | default false) | toYaml | nindent 12 }}
{{- end }}
{{- end }}

{{- define "jervis.admission.bound" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "jervis.admission.name" . }}{{ .name }}
  labels:
    {{- include "jervis.labels" (dict "root" .root "component" "admission") | nindent 4 }}
spec:
  policyName: {{ include "jervis.admission.name" . }}
  validationActions: [Deny]
{{- end }}

{{/*
User name of a component's service account: (dict "root" $ "component" "operator").
*/}}
{{- define "jervis.admission.account" -}}
{{- printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "jervis.component" .) -}}
{{- end }}

{{/*
A list of strings as CEL writes it. None of them can hold a quote: values.schema.json sees to that.
*/}}
{{- define "jervis.admission.list" -}}
[{{ range $i, $one := . }}{{ if $i }}, {{ end }}'{{ $one }}'{{ end }}]
{{- end }}

{{/*
The rule that a frozen old leader runs into, for every status with a leaderEpoch.
*/}}
{{- define "jervis.admission.epoch" -}}
- expression: object.?status.?leaderEpoch.orValue(0) >= oldObject.?status.?leaderEpoch.orValue(0)
  reason: Forbidden
  messageExpression: >-
    'status.leaderEpoch: may not go down from ' + string(oldObject.?status.?leaderEpoch.orValue(0)) + ' to '
    + string(object.?status.?leaderEpoch.orValue(0)) + ': the writer does not lead any more; a leader that
    has seen the object raises its Lease {{ .Release.Namespace }}/{{ .Values.operator.leaseName }} beyond '
    + string(oldObject.?status.?leaderEpoch.orValue(0)) + ' by itself'
{{- end }}

{{/*
One limit of the request's namespace as a CEL expression, from admission.limits and admission.namespaces:
(dict "root" $ "limit" "contentBytes" "annotation" ""). A namespace that has none of its own takes the limit from the
annotation of that name on the Namespace, where one is named and set, else admission.limits: namespaces that join by their
labels are in no list.
*/}}
{{- define "jervis.admission.limit" -}}
{{- $limit := .limit -}}
{
{{- $comma := "" }}
{{- range $namespace, $own := .root.Values.admission.namespaces }}
{{- if hasKey $own $limit }}{{ $comma }}
  '{{ $namespace }}': {{ include "jervis.admission.value" (get $own $limit) }}
{{- $comma = "," }}
{{- end }}
{{- end }}
}[?request.namespace].orValue(
  {{- $default := include "jervis.admission.value" (get .root.Values.admission.limits $limit) }}
  {{- with .annotation }}
  namespaceObject.metadata.?annotations[?'{{ . }}'].hasValue()
  ? namespaceObject.metadata.annotations['{{ . }}'].split(',').map(one, one.trim())
  : {{ $default }}
  {{- else }}
  {{ $default }}
  {{- end }}
)
{{- end }}

{{/* A limit as CEL: a list, a number, and a switch as the number above or below everything. */}}
{{- define "jervis.admission.value" -}}
{{- if and (kindIs "slice" .) (kindIs "map" (first .)) }}{{ include "jervis.admission.permits" . }}
{{- else if kindIs "slice" . }}{{ include "jervis.admission.list" . }}
{{- else if kindIs "bool" . }}{{ ternary 1 1000001 . }}
{{- else }}{{ int64 . }}{{ end }}
{{- end }}

{{/*
A variable: the labels of a run that this write sets or changes: (dict "name" "own" "path" "metadata").
*/}}
{{- define "jervis.admission.runLabels" -}}
- name: {{ .name }}
  expression: >-
    ['jervis.dev/task-uid', 'jervis.dev/task', 'jervis.dev/task-namespace', 'jervis.dev/attempt', 'jervis.dev/meeting',
    'jervis.dev/code-analysis', 'jervis.dev/sandbox', 'jervis.dev/warm'].filter(label,
    object.{{ .path }}.?labels[?label].orValue('')
    != (oldObject == null ? '' : oldObject.{{ .path }}.?labels[?label].orValue('')))
{{- end }}

{{/*
Bounds of permits as CEL: a list of [tools, targets, mayShare, as text], the first two as regular expressions.
*/}}
{{- define "jervis.admission.permits" -}}
[
{{- range $i, $bound := . }}
{{- $targets := $bound.targets | default list }}
{{- $text := printf "%s at [%s]%s" (join "|" $bound.tools) (join ", " $targets) (ternary " with mayShare" "" ($bound.mayShare | default false)) }}
{{- if $i }},{{ end }}
  [r'{{ include "jervis.admission.regex" $bound.tools }}', r'{{ include "jervis.admission.regex" $targets }}', '{{ $bound.mayShare | default false }}', r'{{ $text }}']
{{- end }}
]
{{- end }}

{{/* Patterns with * as one regular expression of the whole text; none matches nothing. */}}
{{- define "jervis.admission.regex" -}}
{{- $found := list }}
{{- range . }}{{ $found = append $found (regexQuoteMeta . | replace "\\*" ".*") }}{{ end -}}
^({{ join "|" $found }})$
{{- end }}
