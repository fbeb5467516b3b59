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
{{- if not (and .root.Values.networkPolicy.dns.ports .root.Values.networkPolicy.dns.to) -}}
{{- fail "\n\nnetworkPolicy.dns: an empty list means anywhere or every port, also to pods that may reach nothing but the DNS.\nName the pods or addresses of the cluster's DNS in `to`, and its ports; or leave the defaults." -}}
{{- end -}}
- ports:
    {{- range .root.Values.networkPolicy.dns.ports }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  to:
    {{- toYaml .root.Values.networkPolicy.dns.to | nindent 4 }}
{{- end }}

{{/*
Where hosts are, as a JSON list of peers: (dict "hosts" (list "mongodb.jervis-data.svc")). An address is itself, a name of the
cluster the namespace in it. Nothing for a list with another name: it may be anywhere.
*/}}
{{- define "jervis.hostPeers" -}}
{{- $peers := list -}}
{{- $unknown := empty .hosts -}}
{{- range .hosts -}}
{{- $host := lower . | trimSuffix "." -}}
{{- if regexMatch "^(([01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])[.]){3}([01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])$" $host -}}
{{- $peers = append $peers (dict "ipBlock" (dict "cidr" (printf "%s/32" $host))) -}}
{{- else if regexMatch "^[[][0-9a-f:.]+[]]$" $host -}}
{{- $peers = append $peers (dict "ipBlock" (dict "cidr" (printf "%s/128" (trimAll "[]" $host)))) -}}
{{- else if regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $host -}}
{{- $peers = append $peers (dict "podSelector" dict) -}}
{{- else if regexMatch "^[a-z0-9-]+([.][a-z0-9-]+)*[.][a-z0-9-]+[.]svc([.]cluster[.]local)?$" $host -}}
{{- $namespace := regexReplaceAll "^.*[.]([a-z0-9-]+)[.]svc([.]cluster[.]local)?$" $host "${1}" -}}
{{- $peers = append $peers (dict "namespaceSelector" (dict "matchLabels" (dict "kubernetes.io/metadata.name" $namespace))) -}}
{{- else -}}
{{- $unknown = true -}}
{{- end -}}
{{- end -}}
{{- ternary (list | toJson) ($peers | uniq | toJson) $unknown -}}
{{- end }}

{{/* The hosts of a URL, of MongoDB's with several as well, as a JSON list; those of IPv6 in brackets. */}}
{{- define "jervis.hosts" -}}
{{- $authority := regexReplaceAll "^[a-z0-9+]+://([^/?]*).*$" . "${1}" -}}
{{- $hosts := list -}}
{{- range splitList "," $authority -}}
{{- $hosts = append $hosts (ternary (regexReplaceAll "[]].*$" . "]") (splitList ":" . | first) (hasPrefix "[" .)) -}}
{{- end -}}
{{- $hosts | toJson -}}
{{- end }}

{{/*
MongoDB: runs reach it, so it is never anywhere. Where `to` is empty its address says where it is.
*/}}
{{- define "jervis.mongodbEgress" -}}
{{- $place := deepCopy .root.Values.networkPolicy.mongodb -}}
{{- if not $place.ports -}}
{{- fail "\n\nnetworkPolicy.mongodb.ports: an empty list means every port, also to runs, which hold foreign text.\nName MongoDB's, for example [27017]." -}}
{{- end -}}
{{- if not $place.to -}}
{{- $secret := .root.Values.mongodb.existingSecret.name -}}
{{- $hosts := ternary list (include "jervis.hosts" (.root.Values.mongodb.uri | default "") | fromJsonArray) (not (empty $secret)) -}}
{{- $peers := include "jervis.hostPeers" (dict "hosts" $hosts) | fromJsonArray -}}
{{- if not $peers -}}
{{- fail (printf "\n\nnetworkPolicy.mongodb.to: where MongoDB is does not follow from %s, and runs, which hold foreign text, may reach nothing but it.\nName its pods or addresses, for example [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: databases}}}] or\n[{ipBlock: {cidr: 10.0.0.5/32}}]; or set networkPolicy.enabled=false." (ternary "a Secret" "the host in mongodb.uri" (not (empty $secret)))) -}}
{{- end -}}
{{- $_ := set $place "to" $peers -}}
{{- end -}}
{{- include "jervis.placeEgress" (dict "place" $place) -}}
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
