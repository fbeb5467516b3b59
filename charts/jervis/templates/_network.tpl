{{/*
Pieces of NetworkPolicies. Each takes a dict with "root"; peers are lists, so that a rule reads as who and which port.
*/}}

{{/* Pods of one of our components in the release's namespace: (dict "root" $ "components" (list "kb" "router")). */}}
{{- define "jervis.peers" -}}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "jervis.name" .root }}
      app.kubernetes.io/instance: {{ .root.Release.Name }}
    matchExpressions:
      - key: app.kubernetes.io/component
        operator: In
        values: {{ .components | toJson }}
{{- end }}

{{/* The pods of orchestrator runs: in the release's namespace alone, where no tenant may label a pod. */}}
{{- define "jervis.jobPeers" -}}
- podSelector:
    matchExpressions:
      - key: jervis.dev/task-uid
        operator: Exists
{{- end }}

{{/* The pods that analyze repositories, in the release's namespace alone. */}}
{{- define "jervis.analysisPeers" -}}
- podSelector:
    matchExpressions:
      - key: jervis.dev/code-analysis
        operator: Exists
{{- end }}

{{/* The pods that run commands of agents, in the release's namespace alone. */}}
{{- define "jervis.sandboxPeers" -}}
- podSelector:
    matchExpressions:
      - key: jervis.dev/sandbox
        operator: Exists
{{- end }}

{{- define "jervis.dnsEgress" -}}
- ports:
    {{- range .root.Values.networkPolicy.dns.ports }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .root.Values.networkPolicy.dns.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Services that take run tokens ask the operator which runs there are. */}}
{{- define "jervis.runsEgress" -}}
- to:
    {{- include "jervis.peers" (dict "root" .root "components" (list "operator")) | nindent 4 }}
  ports:
    - {protocol: TCP, port: 9091}
{{- end }}

{{/* A place outside the release: (dict "place" .Values.networkPolicy.mongodb). An empty list means any. */}}
{{- define "jervis.placeEgress" -}}
{{- $rule := dict -}}
{{- with .place.ports }}
{{- $ports := list -}}
{{- range . }}{{ $ports = append $ports (dict "protocol" "TCP" "port" (int .)) }}{{ end -}}
{{- $_ := set $rule "ports" $ports -}}
{{- end -}}
{{- with .place.to }}{{ $_ := set $rule "to" . }}{{ end -}}
{{- list $rule | toYaml -}}
{{- end }}
