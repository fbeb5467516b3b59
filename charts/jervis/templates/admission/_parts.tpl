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
Its binding: only in the namespaces that this release works off.
*/}}
{{- define "jervis.admission.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "jervis.admission.name" . }}
  labels:
    {{- include "jervis.labels" (dict "root" .root "component" "admission") | nindent 4 }}
spec:
  policyName: {{ include "jervis.admission.name" . }}
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values:
            {{- include "jervis.watchNamespaces" .root | fromJsonArray | toYaml | nindent 12 }}
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
One limit by namespace as a CEL map, from admission.limits and admission.namespaces: (dict "root" $ "limit" "contentBytes").
*/}}
{{- define "jervis.admission.limits" -}}
{{- $root := .root -}}
{{- $limit := .limit -}}
{
{{- range $i, $namespace := include "jervis.watchNamespaces" $root | fromJsonArray }}
{{- $own := get $root.Values.admission.namespaces $namespace | default dict }}
{{- $value := ternary (get $own $limit) (get $root.Values.admission.limits $limit) (hasKey $own $limit) }}
{{- if $i }},{{ end }}
  '{{ $namespace }}': {{ if kindIs "slice" $value }}{{ include "jervis.admission.list" $value }}{{ else }}{{ int64 $value }}{{ end }}
{{- end }}
}
{{- end }}
