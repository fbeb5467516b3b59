{{/*
The pod of the knowledge base, the same in each of its modes:
(dict "root" $ "component" "kb-read" "mode" "all|read|write" "values" .Values.kb.read "readiness" "/servez").
The caller adds `volumes`, except where a claim template names the volume "data".
*/}}
{{- define "jervis.kbPodMetadata" -}}
labels:
  {{- include "jervis.labels" . | nindent 2 }}
  {{- with .root.Values.kb.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: kb
  {{- with .root.Values.kb.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The volumes that every pod of the knowledge base has beside its data. */}}
{{- define "jervis.kbVolumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 512Mi
{{ include "jervis.runTokenVolume" (dict "root" .) }}
{{- if .Values.kb.tokens.existingSecret.name }}
- name: tokens
  secret:
    secretName: {{ .Values.kb.tokens.existingSecret.name }}
{{- end }}
{{- with include "jervis.routerTokenVolume" (dict "root" .) | trim }}
{{ . }}
{{- end }}
{{- with include "jervis.moreVolumes" (dict "root" . "values" .Values.kb) | fromJsonArray }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where Tika is: ours, yours, or "" for none. */}}
{{- define "jervis.tikaUrl" -}}
{{- if .Values.tika.enabled -}}
{{- printf "http://%s.%s.svc:9998" (include "jervis.component" (dict "root" . "component" "tika")) .Release.Namespace -}}
{{- else -}}
{{- .Values.tika.url -}}
{{- end -}}
{{- end }}

{{- define "jervis.kbPodSpec" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "jervis.component" (dict "root" .root "component" "kb") }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $values.kb.terminationGracePeriodSeconds }}
securityContext:
  {{- include "jervis.podSecurityContext" .root | nindent 2 }}
{{- with include "jervis.scheduling" (dict "root" .root "values" .values) | trim }}
{{- . | nindent 0 }}
{{- end }}
containers:
  - name: kb
    image: {{ include "jervis.image" (dict "root" .root "image" $values.image) | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command: [python, -m, kb]
    env:
      - name: JERVIS_KB_MODE
        value: {{ .mode }}
      - name: JERVIS_KB_WORKERS
        value: {{ eq .mode "read" | ternary .values.workers 1 | quote }}
      - name: JERVIS_KB_RECORDS
        value: {{ eq .mode "all" | ternary "files" "mongodb" }}
      - name: JERVIS_KB_NAME
        valueFrom:
          fieldRef: {fieldPath: metadata.name}
      - name: JERVIS_KB_HOST
        value: "0.0.0.0"
      - name: JERVIS_KB_PORT
        value: "8080"
      - name: JERVIS_KB_DATA_DIR
        value: /var/lib/jervis
      - name: JERVIS_KB_ROUTER_URL
        value: {{ include "jervis.routerUrl" .root | quote }}
      {{- with include "jervis.routerTokenEnv" (dict "root" .root "name" "JERVIS_KB_ROUTER_TOKEN_FILE") | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      - name: JERVIS_KB_WEAVIATE_URL
        value: {{ $values.weaviate.url | quote }}
      - name: JERVIS_KB_WEAVIATE_GRPC_PORT
        value: {{ $values.weaviate.grpcPort | quote }}
      {{- with $values.weaviate.existingSecret }}
      {{- if .name }}
      - name: JERVIS_KB_WEAVIATE_API_KEY
        valueFrom:
          secretKeyRef: {name: {{ .name }}, key: {{ .key }}}
      {{- end }}
      {{- end }}
      {{- include "jervis.mongodbEnv" (dict "root" .root "name" "JERVIS_KB_MONGODB_URI") | nindent 6 }}
      - name: JERVIS_KB_MONGODB_DATABASE
        value: {{ $values.mongodb.database | quote }}
      {{- with $values.arangodb.url }}
      - name: JERVIS_KB_ARANGO_URL
        value: {{ . | quote }}
      - name: JERVIS_KB_ARANGO_DATABASE
        value: {{ $values.arangodb.database | quote }}
      {{- with $values.arangodb.existingSecret }}
      {{- if .name }}
      - name: JERVIS_KB_ARANGO_USERNAME
        valueFrom:
          secretKeyRef: {name: {{ .name }}, key: {{ .usernameKey }}}
      - name: JERVIS_KB_ARANGO_PASSWORD
        valueFrom:
          secretKeyRef: {name: {{ .name }}, key: {{ .passwordKey }}}
      {{- end }}
      {{- end }}
      {{- end }}
      {{- $role := include "jervis.role" (dict "root" .root "role" "qualifier") | fromJson }}
      - name: JERVIS_KB_EXTRACT_MODEL
        value: {{ $role.model | quote }}
      {{- with $role.numCtx }}
      - name: JERVIS_KB_EXTRACT_NUM_CTX
        value: {{ int64 . | quote }}
      {{- end }}
      {{- $role = include "jervis.role" (dict "root" .root "role" "fast") | fromJson }}
      {{- with $role.model }}
      - name: JERVIS_KB_FAST_MODEL
        value: {{ . | quote }}
      {{- end }}
      {{- with $role.numCtx }}
      - name: JERVIS_KB_FAST_NUM_CTX
        value: {{ int64 . | quote }}
      {{- end }}
      {{- $role = include "jervis.role" (dict "root" .root "role" "decision") | fromJson }}
      - name: JERVIS_KB_DECISION_MODEL
        value: {{ $role.model | quote }}
      {{- with $role.numCtx }}
      - name: JERVIS_KB_DECISION_NUM_CTX
        value: {{ int64 . | quote }}
      {{- end }}
      {{- $role = include "jervis.role" (dict "root" .root "role" "vision") | fromJson }}
      - name: JERVIS_KB_VISION_MODEL
        value: {{ $role.model | quote }}
      {{- with $role.numCtx }}
      - name: JERVIS_KB_VISION_NUM_CTX
        value: {{ int64 . | quote }}
      {{- end }}
      - name: JERVIS_KB_EMBED_MODEL
        value: {{ $values.models.embedding | quote }}
      {{- with $values.models.embeddingInstruction }}
      - name: JERVIS_KB_EMBED_QUERY_INSTRUCTION
        value: {{ . | quote }}
      {{- end }}
      {{- with $values.models.embeddingPassagePrefix }}
      - name: JERVIS_KB_EMBED_PASSAGE_PREFIX
        value: {{ . | quote }}
      {{- end }}
      {{- with $values.models.embeddingWindow }}
      - name: JERVIS_KB_EMBED_WINDOW
        value: {{ int64 . | quote }}
      {{- end }}
      {{- with $values.models.embeddingBefore }}
      - name: JERVIS_KB_EMBED_MODEL_BEFORE
        value: {{ . | quote }}
      {{- with $values.models.embeddingBeforeInstruction }}
      - name: JERVIS_KB_EMBED_QUERY_INSTRUCTION_BEFORE
        value: {{ . | quote }}
      {{- end }}
      {{- with $values.models.embeddingBeforePassagePrefix }}
      - name: JERVIS_KB_EMBED_PASSAGE_PREFIX_BEFORE
        value: {{ . | quote }}
      {{- end }}
      {{- end }}
      - name: JERVIS_KB_CODE_QUERIES
        value: {{ .root.Values.joern.adHocQueries | quote }}
      - name: JERVIS_KB_AGENT_SERVERS
        value: {{ $values.job.tools.mcpServers | default list | toJson | quote }}
      {{- with $values.models.reranker }}
      - name: JERVIS_KB_RERANK_MODEL
        value: {{ . | quote }}
      {{- end }}
      {{- with include "jervis.tikaUrl" .root }}
      - name: JERVIS_KB_TIKA_URL
        value: {{ . | quote }}
      {{- end }}
      {{- include "jervis.runTokenEnv" (dict "root" .root "service" "KB") | nindent 6 }}
      {{- if $values.kb.tokens.existingSecret.name }}
      - name: JERVIS_KB_TOKENS_FILE
        value: {{ printf "/etc/jervis/tokens/%s" $values.kb.tokens.existingSecret.key | quote }}
      {{- end }}
      {{- if and $values.networkPolicy.enabled (not $values.networkPolicy.kbEgress) (kindIs "invalid" (index ($values.kb.settings | default dict) "linksPerDocument")) }}
      # No site can be reached: tasks of links would wait for nothing, in places that other tasks need.
      - name: JERVIS_KB_LINKS_PER_DOCUMENT
        value: "0"
      {{- end }}
      {{- $settings := $values.kb.settings | default dict }}
      {{- $hosts := $settings.allowedHosts | default list }}
      {{- /* Where every caller shows a token and no name is given, each name is good. */}}
      {{- if and ($values.kb.ingress).enabled (or $hosts (not $values.kb.tokens.existingSecret.name)) }}
      {{- $settings = merge (dict "allowedHosts" (append $hosts $values.kb.ingress.host | uniq)) $settings }}
      {{- end }}
      {{- with include "jervis.settingsEnv" (dict "prefix" "JERVIS_KB_" "settings" $settings) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with include "jervis.moreEnv" (dict "root" .root "values" $values.kb) | fromJsonArray }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: http
        containerPort: 8080
    startupProbe:
      httpGet: {path: /healthz, port: http}
      initialDelaySeconds: 1
      periodSeconds: 2
      failureThreshold: 60
    livenessProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: {{ .readiness }}, port: http}
      periodSeconds: 5
      timeoutSeconds: 5
    resources:
      {{- toYaml .values.resources | nindent 6 }}
    securityContext:
      {{- include "jervis.containerSecurityContext" .root | nindent 6 }}
    volumeMounts:
      - name: tmp
        mountPath: /tmp
      - name: data
        mountPath: /var/lib/jervis
      {{- include "jervis.runTokenMount" . | nindent 6 }}
      {{- with include "jervis.routerTokenMount" (dict "root" .root) | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- if $values.kb.tokens.existingSecret.name }}
      - name: tokens
        mountPath: /etc/jervis/tokens
        readOnly: true
      {{- end }}
      {{- with include "jervis.moreMounts" (dict "root" .root "values" $values.kb) | fromJsonArray }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
