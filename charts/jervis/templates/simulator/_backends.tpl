{{/*
The GpuBackends of the two simulators, in the shape of `gpuBackends`.
*/}}
{{- define "jervis.simulatorBackends" -}}
{{- $root := . -}}
{{- $models := include "jervis.modelNames" . | fromJson -}}
- name: {{ include "jervis.component" (dict "root" . "component" "ollama-gpu") }}
  kind: GPU
  url: {{ include "jervis.simulatorUrl" (dict "root" . "component" "ollama-gpu") | quote }}
  vram: {{ .Values.simulator.gpu.vram | quote }}
  numParallel: {{ .Values.simulator.gpu.numParallel }}
  maxLoadedModels: 4
  capabilities: [generate, embed]
  modelSets:
    - name: orchestrator
      models:
        - {name: {{ $models.orchestrator | quote }}, vram: 20Gi, cpuAllowed: false, priority: 0}
    - name: background
      models:
        {{- range $name := concat (compact (list $models.qualifier $models.fast)) .Values.simulator.extraModels | uniq }}
        - {name: {{ $name | quote }}, cpuAllowed: true, priority: 3}
        {{- end }}
        - {name: {{ $models.embedding | quote }}, cpuAllowed: true, priority: 3}
- name: {{ include "jervis.component" (dict "root" . "component" "ollama-cpu") }}
  kind: CPU
  url: {{ include "jervis.simulatorUrl" (dict "root" . "component" "ollama-cpu") | quote }}
  numParallel: {{ .Values.simulator.cpu.numParallel }}
  maxLoadedModels: 6
  # Images are looked at here: on the GPU their model would take turns with the orchestrator's.
  capabilities: [generate, embed, vision]
  modelSets:
    - name: background
      models:
        {{- /* The planner is here alone: on the GPU it would take the place of the orchestrator's model. */}}
        {{- range $name := concat (compact (list $models.qualifier $models.fast)) .Values.simulator.extraModels (list $models.vision) (without (compact (list $models.planner)) $models.orchestrator) | uniq }}
        - {name: {{ $name | quote }}, cpuAllowed: true, priority: 3}
        {{- end }}
        - {name: {{ $models.embedding | quote }}, cpuAllowed: true, priority: 3}
{{- end }}

{{- define "jervis.simulatorUrl" -}}
{{- printf "http://%s.%s.svc:11434" (include "jervis.component" .) .root.Release.Namespace -}}
{{- end }}
