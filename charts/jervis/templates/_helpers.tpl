{{/*
Names. `jervis.component` takes (dict "root" $ "component" "router") and gives the name of everything of that component.
*/}}
{{- define "jervis.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "jervis.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "jervis.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "jervis.component" -}}
{{- printf "%s-%s" (include "jervis.fullname" .root) .component -}}
{{- end }}

{{/*
Labels. A selector is immutable in a Deployment, so it holds only what never changes during a release's life.
*/}}
{{- define "jervis.selectorLabels" -}}
app.kubernetes.io/name: {{ include "jervis.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "jervis.labels" -}}
{{ include "jervis.selectorLabels" . }}
app.kubernetes.io/part-of: jervis
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
"registry/repository:tag", or with a digest when one is given: a digest cannot be moved under us. (dict "root" $ "image"
.Values.image); without a tag it is the image of the chart's own version.
*/}}
{{- define "jervis.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/*
The restricted Pod Security Standard, for every pod and container of this chart. Not a value on purpose: only the numeric
user may change, because some platforms assign their own.
*/}}
{{- define "jervis.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.runAsUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
fsGroup: {{ int64 . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "jervis.containerSecurityContext" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/*
Where a pod runs: (dict "root" $ "values" .Values.router).
*/}}
{{- define "jervis.scheduling" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
A settings map as environment variables: (dict "prefix" "JERVIS_KB_" "settings" map). scheduleLeadDays becomes
JERVIS_OPERATOR_SCHEDULE_LEAD_DAYS. Numbers, booleans and lists are written as JSON: 1000000 never becomes 1e+06.
*/}}
{{- define "jervis.settingsEnv" -}}
{{- $prefix := .prefix -}}
{{- range $key, $value := .settings }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ printf "%s%s" $prefix ($key | snakecase | upper) }}
  value: {{ ternary $value ($value | toJson) (kindIs "string" $value) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The address of MongoDB: from a Secret when it carries credentials. (dict "root" $ "name" "JERVIS_KB_MONGODB_URI").
*/}}
{{- define "jervis.mongodbEnv" -}}
- name: {{ .name }}
{{- if .root.Values.mongodb.existingSecret.name }}
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.mongodb.existingSecret.name }}
      key: {{ .root.Values.mongodb.existingSecret.key }}
{{- else }}
  value: {{ .root.Values.mongodb.uri | quote }}
{{- end }}
{{- end }}

{{/*
Lists as JSON of what a pod has beside its own environment, mounts and volumes: the certificates of caBundle, and extraEnv,
extraVolumeMounts and extraVolumes. (dict "root" $ "values" .Values.router). Runs get theirs by the operator.
*/}}
{{- define "jervis.moreEnv" -}}
{{- $env := list -}}
{{- if .root.Values.caBundle.name -}}
{{- /* OpenSSL (MongoDB, HTTP), requests (ArangoDB, OTLP) and gRPC (Weaviate) each look in a place of their own. */ -}}
{{- range $name := list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" -}}
{{- $env = append $env (dict "name" $name "value" "/etc/jervis/ca-bundle/ca.crt") -}}
{{- end -}}
{{- end -}}
{{- concat $env .values.extraEnv | toJson -}}
{{- end }}

{{- define "jervis.moreMounts" -}}
{{- $mounts := list -}}
{{- if .root.Values.caBundle.name -}}
{{- $mounts = append $mounts (dict "name" "ca-bundle" "mountPath" "/etc/jervis/ca-bundle" "readOnly" true) -}}
{{- end -}}
{{- concat $mounts .values.extraVolumeMounts | toJson -}}
{{- end }}

{{- define "jervis.moreVolumes" -}}
{{- $volumes := list -}}
{{- with .root.Values.caBundle -}}
{{- if .name -}}
{{- $items := list (dict "key" .key "path" "ca.crt") -}}
{{- if eq .kind "Secret" -}}
{{- $volumes = append $volumes (dict "name" "ca-bundle" "secret" (dict "secretName" .name "items" $items)) -}}
{{- else -}}
{{- $volumes = append $volumes (dict "name" "ca-bundle" "configMap" (dict "name" .name "items" $items)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- concat $volumes .values.extraVolumes | toJson -}}
{{- end }}

{{/*
Addresses of our own services, as seen from any namespace.
*/}}
{{- define "jervis.routerUrl" -}}
{{- printf "http://%s.%s.svc:%d" (include "jervis.component" (dict "root" . "component" "router")) .Release.Namespace (int .Values.router.service.port) -}}
{{- end }}

{{/*
The token that a pod of the release shows the router: "env" (dict "root" $ "name" "JERVIS_KB_ROUTER_TOKEN_FILE"), "mount"
and "volume" (dict "root" $). Nothing while the router reviews no tokens.
*/}}
{{- define "jervis.routerTokenEnv" -}}
{{- if .root.Values.router.auth.tokenReview }}
- name: {{ .name }}
  value: /var/run/secrets/jervis/router/token
{{- end }}
{{- end }}

{{- define "jervis.routerTokenMount" -}}
{{- if .root.Values.router.auth.tokenReview }}
- name: router-token
  mountPath: /var/run/secrets/jervis/router
  readOnly: true
{{- end }}
{{- end }}

{{- define "jervis.routerTokenVolume" -}}
{{- if .root.Values.router.auth.tokenReview }}
- name: router-token
  projected:
    sources:
      - serviceAccountToken:
          audience: {{ first .root.Values.router.auth.audiences | quote }}
          expirationSeconds: 3600
          path: token
{{- end }}
{{- end }}

{{/*
The keys of run tokens, for the operator that signs and the services that verify: "env" (dict "root" $ "service" "KB"),
"mount" and "volume" (dict "root" $). All entries of the Secret are mounted: a rotation has two. The services also learn
where the operator says which runs there are.
*/}}
{{- define "jervis.runTokenEnv" -}}
- name: JERVIS_{{ .service }}_RUN_TOKEN_KEYS
  value: /var/run/secrets/jervis/run-token-keys
{{- if ne .service "OPERATOR" }}
- name: JERVIS_{{ .service }}_LIVE_RUNS_URL
  value: {{ include "jervis.historyUrl" .root | quote }}
{{- end }}
{{- end }}

{{- define "jervis.runTokenMount" -}}
- name: run-token-keys
  mountPath: /var/run/secrets/jervis/run-token-keys
  readOnly: true
{{- end }}

{{- define "jervis.runTokenVolume" -}}
- name: run-token-keys
  secret:
    secretName: {{ .root.Values.runToken.existingSecret | default (include "jervis.component" (dict "root" .root "component" "run-token")) }}
    defaultMode: 0440
{{- end }}

{{/* Who may call the router, as JSON: all of the release's namespace when the list is empty, else the listed and ours. */}}
{{- define "jervis.routerAccounts" -}}
{{- $accounts := .Values.router.auth.allowedAccounts -}}
{{- if $accounts -}}
{{- $accounts = append $accounts (printf "%s/%s" .Release.Namespace (include "jervis.component" (dict "root" . "component" "kb"))) -}}
{{- $accounts = append $accounts (printf "%s/%s" .Release.Namespace (include "jervis.component" (dict "root" . "component" "operator"))) -}}
{{- if .Values.sources.enabled -}}
{{- $accounts = append $accounts (printf "%s/%s" .Release.Namespace (include "jervis.component" (dict "root" . "component" "sources"))) -}}
{{- end -}}
{{- end -}}
{{- $accounts | uniq | toJson -}}
{{- end }}

{{- define "jervis.kbReadUrl" -}}
{{- printf "http://%s.%s.svc:%d" (include "jervis.component" (dict "root" . "component" "kb-read")) .Release.Namespace (int .Values.kb.service.port) -}}
{{- end }}

{{- define "jervis.kbWriteUrl" -}}
{{- printf "http://%s.%s.svc:%d" (include "jervis.component" (dict "root" . "component" "kb-write")) .Release.Namespace (int .Values.kb.service.port) -}}
{{- end }}

{{- define "jervis.historyUrl" -}}
{{- printf "http://%s.%s.svc:9091" (include "jervis.component" (dict "root" . "component" "operator")) .Release.Namespace -}}
{{- end }}

{{- define "jervis.sourcesUrl" -}}
{{- printf "http://%s.%s.svc:8080" (include "jervis.component" (dict "root" . "component" "sources")) .Release.Namespace -}}
{{- end }}

{{/*
The watched namespaces as JSON: the release's own, where GpuBackends live, and the listed ones.
*/}}
{{- define "jervis.watchNamespaces" -}}
{{- prepend .Values.watchNamespaces .Release.Namespace | uniq | sortAlpha | toJson -}}
{{- end }}

{{/*
The namespaces whose state runs see, as JSON: the listed ones, or the watched ones besides the release's own.
*/}}
{{- define "jervis.shownNamespaces" -}}
{{- .Values.agents.clusterState.namespaces | default (without .Values.watchNamespaces .Release.Namespace) | uniq | sortAlpha | toJson -}}
{{- end }}

{{/*
watchNamespaceSelector as the text of a label selector; empty when namespaces are served by name.
*/}}
{{- define "jervis.watchLabels" -}}
{{- $found := list -}}
{{- range $name, $value := .Values.watchNamespaceSelector.matchLabels -}}
{{- $found = append $found (printf "%s=%s" $name $value) -}}
{{- end -}}
{{- join "," $found -}}
{{- end }}

{{/*
Flags of `kopf run`: which namespaces are served.
*/}}
{{- define "jervis.watchFlags" -}}
{{- if include "jervis.watchLabels" . -}}
["--all-namespaces"]
{{- else -}}
{{- $flags := list -}}
{{- range $namespace := include "jervis.watchNamespaces" . | fromJsonArray -}}
{{- $flags = append $flags (printf "--namespace=%s" $namespace) -}}
{{- end -}}
{{- $flags | toJson -}}
{{- end -}}
{{- end }}

{{/*
The limits of namespaces as the operator reads them: those that its admission policies check, without sizes.
*/}}
{{- define "jervis.admittedLimits" -}}
{{- $own := dict -}}
{{- range $namespace, $limits := .Values.admission.namespaces -}}
{{- $_ := set $own $namespace (pick $limits "types" "clients" "modes" "queuePosition" "taskFlags" "permits") -}}
{{- end -}}
{{- dict "limits" (pick .Values.admission.limits "types" "clients" "modes" "queuePosition" "taskFlags" "permits") "namespaces" $own | toJson -}}
{{- end }}

{{/*
Values that no schema can judge alone.
*/}}
{{- define "jervis.validate" -}}
{{- if and (eq .Values.kb.profile "distributed") (not .Values.arangodb.url) -}}
{{- fail "\n\narangodb.url: the distributed profile needs a graph store that several pods share.\nSet arangodb.url (and arangodb.existingSecret.name), or kb.profile=local for one pod with the embedded store." -}}
{{- end -}}
{{- if and .Values.tika.enabled (not .Values.tika.image.tag) (not .Values.tika.image.digest) -}}
{{- fail "\n\ntika.image.tag: Tika's image has versions of its own, and an empty tag names none of them.\nGive the tag or the digest of the image, or leave the default." -}}
{{- end -}}
{{- if and .Values.kb.tokens.existingSecret.name (not .Values.kb.tokens.clientSecret.name) -}}
{{- fail "\n\nkb.tokens.clientSecret.name: a knowledge base that asks for tokens refuses the operator as well.\nName a Secret with a token of the file that may write in every scope, or leave kb.tokens.existingSecret.name empty." -}}
{{- end -}}
{{- if and .Values.joern.enabled (not .Values.joern.image) -}}
{{- fail "\n\njoern.image: Joern is in no other image of the release.\nGive an image made of the target `joern` of the Dockerfile, or set joern.enabled=false." -}}
{{- end -}}
{{- if and .Values.joern.enabled (not .Values.sources.enabled) -}}
{{- fail "\n\njoern.enabled: repositories are cloned from the sources process.\nSet sources.enabled=true as well, or joern.enabled=false." -}}
{{- end -}}
{{- if and .Values.joern.adHocQueries (not .Values.joern.enabled) -}}
{{- fail "\n\njoern.adHocQueries: queries run in Joern.\nSet joern.enabled=true as well, or joern.adHocQueries=false." -}}
{{- end -}}
{{- if and .Values.sandbox.enabled (not .Values.kb.tokens.existingSecret.name) -}}
{{- fail "\n\nsandbox.enabled: a command is foreign code beside the knowledge base's port, which without tokens is open to every pod that reaches it.\nSet kb.tokens.existingSecret.name and kb.tokens.clientSecret.name, or sandbox.enabled=false." -}}
{{- end -}}
{{- $served := include "jervis.watchNamespaces" . | fromJsonArray -}}
{{- if not (include "jervis.watchLabels" .) -}}
{{- range $name := list "namespaces" "logNamespaces" -}}
{{- range $namespace := index $.Values.agents.clusterState $name -}}
{{- if and (ne $namespace "*") (not (has $namespace $served)) -}}
{{- fail (printf "\n\nagents.clusterState.%s: %s is not watched, so it has no tasks.\nAdd it to watchNamespaces, or take it out." $name $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.joern.adHocQueries (not .Values.kb.tokens.existingSecret.name) -}}
{{- fail "\n\njoern.adHocQueries: a query is a program beside the knowledge base's port, which without tokens is open to every pod that reaches it.\nSet kb.tokens.existingSecret.name and kb.tokens.clientSecret.name, or joern.adHocQueries=false." -}}
{{- end -}}
{{- if and .Values.router.auth.required (not .Values.router.auth.tokenReview) -}}
{{- fail "\n\nrouter.auth.required: the release's own pods show tokens of their service accounts, which only tokenReview lets in.\nSet router.auth.tokenReview=true as well (tokensSecret may stay for clients outside), or router.auth.required=false." -}}
{{- end -}}
{{- if and (gt (int .Values.operator.replicas) 1) (eq .Values.operator.strategy "Recreate") -}}
{{- fail "\n\noperator.strategy: with more than one replica a Recreate update stops the standby as well.\nSet operator.strategy=RollingUpdate (the Lease lets one of them act), or operator.replicas=1." -}}
{{- end -}}
{{- if and .Values.watchNamespaces (include "jervis.watchLabels" .) -}}
{{- fail "\n\nwatchNamespaceSelector: watchNamespaces names the served namespaces already.\nLabel those namespaces and leave watchNamespaces empty, or take the selector out." -}}
{{- end -}}
{{- range $name, $values := dict "router" .Values.router "kb" .Values.kb -}}
{{- if and ($values.ingress).enabled (not $values.ingress.host) -}}
{{- fail (printf "\n\n%s.ingress.host: an Ingress without a host would take every name.\nGive the name that clients call, or set %s.ingress.enabled=false." $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and (.Values.router.ingress).enabled (.Values.kb.ingress).enabled (eq .Values.router.ingress.host .Values.kb.ingress.host) -}}
{{- fail "\n\nkb.ingress.host: the router and the knowledge base both have /api.\nGive them hosts of their own." -}}
{{- end -}}
{{- if and (.Values.kb.read.autoscaling).enabled (ne .Values.kb.profile "distributed") -}}
{{- fail "\n\nkb.read.autoscaling: the local profile has one pod, which reads and writes.\nSet kb.profile=distributed, or kb.read.autoscaling.enabled=false." -}}
{{- end -}}
{{- if and (.Values.tika.autoscaling).enabled (not .Values.tika.enabled) -}}
{{- fail "\n\ntika.autoscaling: the release runs no Tika.\nSet tika.enabled=true, or tika.autoscaling.enabled=false." -}}
{{- end -}}
{{- range $name, $values := dict "kb.read" .Values.kb.read "tika" .Values.tika -}}
{{- with $values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "\n\n%s.autoscaling.minReplicas: %d is more than maxReplicas (%d)." $name (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if and .enabled (not (dig "requests" "cpu" "" ($values.resources | default dict))) -}}
{{- fail (printf "\n\n%s.resources.requests.cpu: the CPU that is used is compared with it.\nGive one, or set %s.autoscaling.enabled=false." $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.gpuBackends }}{{ $names = append $names .name }}{{ end -}}
{{- if ne (len $names) (len (uniq $names)) -}}
{{- fail (printf "\n\ngpuBackends: every name may occur once, got %s." (join ", " $names)) -}}
{{- end -}}
{{- $servers := list -}}
{{- range .Values.job.tools.mcpServers }}{{ $servers = append $servers .name }}{{ end -}}
{{- if ne (len $servers) (len (uniq $servers)) -}}
{{- fail (printf "\n\njob.tools.mcpServers: every name may occur once, got %s.\nName the tools of a server in one entry." (join ", " $servers)) -}}
{{- end -}}
{{- range $window := include "jervis.windows" . | fromJsonArray -}}
{{- range $backend := $.Values.gpuBackends -}}
{{- range $set := $backend.modelSets -}}
{{- range $model := $set.models -}}
{{- $meant := regexMatch (printf "^%s$" (regexQuoteMeta $model.name | replace "\\*" ".*")) $window.model -}}
{{- if and $meant $model.numCtx (gt (int64 $window.numCtx) (int64 $model.numCtx)) -}}
{{- fail (printf "\n\nmodels.numCtx.%s: %d is more than the %d that gpuBackends entry %s loads %s with, so longer prompts would be refused there.\nRaise numCtx of that model, or lower models.numCtx.%s (roles that share a model have the largest of their windows)." $window.role (int64 $window.numCtx) (int64 $model.numCtx) $backend.name $model.name $window.role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $watched := include "jervis.watchNamespaces" . | fromJsonArray -}}
{{- $selected := get (.Values.watchNamespaceSelector | default dict) "matchLabels" -}}
{{- range $namespace, $limits := .Values.admission.namespaces }}
{{- if not (or $selected (has $namespace $watched)) -}}
{{- fail (printf "\n\nadmission.namespaces: %s is not watched, so limits for it would do nothing.\nAdd it to watchNamespaces, or take it out; watched are %s." $namespace (join ", " $watched)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
How many pods wait for a run. Values that were kept from an older release (--reuse-values) do not say it.
*/}}
{{- define "jervis.warmPool" -}}
{{- (.Values.job.warmPool | default dict).size | default 0 | int64 -}}
{{- end }}
