{{/* What the pods of gateways, workers and the archive have alike. */}}

{{/* Everything of a pod's spec but containers, volumes and grace. Takes (list $ values component). */}}
{{- define "duplex-es.pod" -}}
{{- $root := index . 0 -}}{{- $values := index . 1 -}}{{- $component := index . 2 -}}
serviceAccountName: {{ include "duplex-es.serviceAccountName" $root }}
automountServiceAccountToken: false
# Without this a Service of the name "duplex-es" would set DUPLEX_ES_PORT to "tcp://…" in every pod.
enableServiceLinks: false
{{- with $root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- with $values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels:
        {{- include "duplex-es.selector" (list $root $component) | nindent 8 }}
    {{- end }}
    {{- if not .matchLabelKeys }}
    # The pods of a rollout are spread among themselves, not against those that go.
    matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- include "duplex-es.rendered" (list $root .) | nindent 2 }}
{{- end }}
{{- $gpu := dict }}
{{- if and $values.gpu (gt (int (default (dict) $values.gpu).count) 0) }}{{ $gpu = $values.gpu }}{{ end }}
{{- with merge (dict) (default (dict) $values.nodeSelector) (default (dict) $gpu.nodeSelector) }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat (default (list) $values.tolerations) (default (list) $gpu.tolerations) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.extraInitContainers }}
initContainers:
  {{- include "duplex-es.rendered" (list $root .) | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The labels of a pod's template. Takes (list $ values component). */}}
{{- define "duplex-es.podLabels" -}}
{{- $root := index . 0 -}}
{{- include "duplex-es.selector" (list $root (index . 2)) }}
{{- with merge (dict) (default (dict) (index . 1).podLabels) $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The environment that all programs share. Takes (list $ values). */}}
{{- define "duplex-es.env" -}}
{{- $root := index . 0 -}}{{- $values := index . 1 -}}
- name: DUPLEX_ES_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{ include "duplex-es.store.env" $root }}
- {name: DUPLEX_ES_DURABILITY, value: {{ $root.Values.durability.level | quote }}}
- {name: DUPLEX_ES_REPLICAS, value: {{ $root.Values.durability.replicas | toString | quote }}}
- {name: DUPLEX_ES_LOG_FORMAT, value: {{ $root.Values.log.format | quote }}}
- {name: DUPLEX_ES_LOG_LEVEL, value: {{ $root.Values.log.level | quote }}}
{{- with $root.Values.tracing.endpoint }}
- {name: DUPLEX_ES_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- range $name, $value := $values.settings }}
- {name: {{ printf "DUPLEX_ES_%s" (upper $name) }}, value: {{ kindIs "float64" $value | ternary ($value | toJson) (toString $value) | quote }}}
{{- end }}
{{- end -}}

{{/* The end of a container: extra environment, arguments, mounts. Takes (list $ values). */}}
{{- define "duplex-es.extraEnv" -}}
{{- with (index . 1).extraEnv }}
{{ include "duplex-es.rendered" (list (index $ 0) .) }}
{{- end }}
{{- end -}}

{{- define "duplex-es.extraEnvFrom" -}}
{{- with (index . 1).extraEnvFrom }}
envFrom:
  {{- include "duplex-es.rendered" (list (index $ 0) .) | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "duplex-es.extraArgs" -}}
{{- with (index . 1).extraArgs }}
args:
  {{- include "duplex-es.rendered" (list (index $ 0) .) | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A rollout's strategy; what belongs to RollingUpdate alone is left out of Recreate. */}}
{{- define "duplex-es.strategy" -}}
strategy:
  type: {{ .type }}
  {{- if eq .type "RollingUpdate" }}
  rollingUpdate:
    {{- toYaml .rollingUpdate | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Whether two or more pods run, so that one can be spared: "yes" or nothing. Takes the values of a tier. */}}
{{- define "duplex-es.several" -}}
{{- if gt (int (eq .autoscaling.mode "none" | ternary .replicas .autoscaling.minReplicas)) 1 }}yes{{ end -}}
{{- end -}}

{{/* A PodDisruptionBudget. Takes (dict "root" $ "values" … "component" … "name" …). */}}
{{- define "duplex-es.pdb" -}}
{{- if and .values.pdb.enabled (include "duplex-es.several" .values) }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "duplex-es.metadata" (list .root .component .name) | nindent 2 }}
spec:
  maxUnavailable: {{ .values.pdb.maxUnavailable }}
  # A pod that is broken anyway must not hold up the draining of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "duplex-es.selector" (list .root .component) | nindent 6 }}
{{- end }}
{{- end -}}
