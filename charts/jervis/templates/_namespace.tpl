{{/*
What a served namespace gets besides the operator's Role, each by (dict "root" $ "namespace" "team-a"). With an empty namespace
it is a manifest for `kubectl apply -n`, which NOTES.txt prints for namespaces that join by their labels: their names are unknown
while the chart is rendered, and the operator has no right to create any of it.
*/}}
{{- define "jervis.namespace.metadata" -}}
name: {{ .name }}
{{- if .namespace }}
namespace: {{ .namespace }}
labels:
  {{- include "jervis.labels" . | nindent 2 }}
{{- else }}
labels:
  app.kubernetes.io/part-of: jervis
  app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- end }}

{{- define "jervis.namespace.history" -}}
{{- $operator := include "jervis.component" (dict "root" .root "component" "operator") }}
{{- $name := include "jervis.component" (dict "root" .root "component" "history") }}
# An account without any rights. A token of it, for the audience history.jervis.dev, opens this namespace's history.
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "jervis.namespace.metadata" (dict "root" .root "component" "history" "name" $name "namespace" .namespace) | nindent 2 }}
  annotations:
    jervis.dev/history: {{ printf "%s/%s:history" .root.Release.Namespace $operator | quote }}
automountServiceAccountToken: false
{{- end }}

{{- define "jervis.namespace.connectionSecrets" -}}
{{- $operator := include "jervis.component" (dict "root" .root "component" "operator") }}
{{- $metadata := dict "root" .root "component" "operator" "name" (printf "%s-connection-secrets" $operator) "namespace" .namespace }}
# Credentials of Connections: these Secrets by name, and no others. A Connection names a Secret of its own namespace.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "jervis.namespace.metadata" $metadata | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames:
      {{- toYaml .root.Values.rbac.connectionSecrets | nindent 6 }}
    verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "jervis.namespace.metadata" $metadata | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $metadata.name }}
subjects:
  - kind: ServiceAccount
    name: {{ $operator }}
    namespace: {{ .root.Release.Namespace }}
  {{- if .root.Values.sources.enabled }}
  - kind: ServiceAccount
    name: {{ include "jervis.component" (dict "root" .root "component" "sources") }}
    namespace: {{ .root.Release.Namespace }}
  {{- end }}
{{- end }}

{{- define "jervis.namespace.quota" -}}
{{- $own := get .root.Values.admission.namespaces .namespace | default dict }}
{{- $name := include "jervis.component" (dict "root" .root "component" "admission") }}
# A policy sees one object and cannot count; a quota can. Finished tasks count until their time to live is over.
apiVersion: v1
kind: ResourceQuota
metadata:
  {{- include "jervis.namespace.metadata" (dict "root" .root "component" "admission" "name" $name "namespace" .namespace) | nindent 2 }}
spec:
  hard:
    count/pendingtasks.jervis.dev: {{ get $own "pendingTasks" | default .root.Values.admission.quota.pendingTasks | int64 | quote }}
{{- end }}

{{/* What of a namespace is shown to the runs of its tasks: (dict "root" $ "namespace" "team-a" "logs" true). */}}
{{- define "jervis.namespace.clusterState" -}}
{{- $operator := include "jervis.component" (dict "root" .root "component" "operator") }}
{{- $metadata := dict "root" .root "component" "operator" "name" (printf "%s-cluster-state" $operator) "namespace" .namespace }}
# Read for the runs of tasks of this namespace, and shown without environments and arguments. No Secrets, no ConfigMaps.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "jervis.namespace.metadata" $metadata | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [pods, services, events, persistentvolumeclaims, resourcequotas]
    verbs: [list]
  - apiGroups: [apps]
    resources: [deployments, statefulsets, daemonsets]
    verbs: [list]
  - apiGroups: [batch]
    resources: [jobs, cronjobs]
    verbs: [list]
  - apiGroups: [discovery.k8s.io]
    resources: [endpointslices]
    verbs: [list]
  {{- if .logs }}
  - apiGroups: [""]
    resources: [pods/log]
    verbs: [get]
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "jervis.namespace.metadata" $metadata | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $metadata.name }}
subjects:
  - kind: ServiceAccount
    name: {{ $operator }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* All of it for a namespace that joins by its labels. */}}
{{- define "jervis.namespace.manifest" -}}
{{- $of := dict "root" . "namespace" "" }}
{{- include "jervis.namespace.history" $of }}
{{- if .Values.rbac.connectionSecrets }}
---
{{ include "jervis.namespace.connectionSecrets" $of }}
{{- end }}
{{- if and .Values.admission.enabled .Values.admission.quota.enabled }}
---
{{ include "jervis.namespace.quota" $of }}
{{- end }}
{{- with .Values.agents.clusterState }}
{{- if and .enabled (not .namespaces) }}
---
{{ include "jervis.namespace.clusterState" (merge (dict "logs" (has "*" .logNamespaces)) $of) }}
{{- end }}
{{- end }}
{{- end }}
