{{/* What HorizontalPodAutoscalers and ScaledObjects of both tiers have alike. */}}

{{/* A ScaledObject without its triggers. Takes (dict "root" "values" (of the tier) "component" "name"). */}}
{{- define "duplex-es.scaledObject" -}}
{{- if gt (len .name) 47 -}}
{{- fail (printf "%s is %d characters long: Kubernetes would cut the names of its pods, which the queries of the ScaledObject go by. 47 is the most; set fullnameOverride or a shorter name of the pool" .name (len .name)) -}}
{{- end -}}
{{- with .values.autoscaling -}}
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  {{- include "duplex-es.metadata" (list $.root $.component $.name) | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ $.name }}
  minReplicaCount: {{ .minReplicas }}
  maxReplicaCount: {{ .maxReplicas }}
  pollingInterval: {{ .keda.pollingInterval }}
  cooldownPeriod: {{ .keda.cooldownPeriod }}
  {{- with .keda.fallback }}
  fallback:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        {{- toYaml .behavior | nindent 8 }}
{{- end -}}
{{- end -}}

{{/* A trigger on Prometheus. Takes (dict "root" "name" "query" "threshold" "idle"): up to idle nothing needs to run. */}}
{{- define "duplex-es.prometheusTrigger" -}}
- type: prometheus
  name: {{ .name }}
  metricType: AverageValue
  metadata:
    serverAddress: {{ .root.Values.autoscaling.prometheusAddress | quote }}
    query: {{ .query | quote }}
    threshold: {{ .threshold | toString | quote }}
    activationThreshold: {{ default 0 .idle | toString | quote }}
    # No answer is no reason to shrink: the fallback holds.
    ignoreNullValues: "false"
  {{- with .root.Values.autoscaling.triggerAuthentication }}
  authenticationRef:
    name: {{ . }}
  {{- end }}
{{- end -}}

{{/* A HorizontalPodAutoscaler without its metrics. Takes the same as scaledObject. */}}
{{- define "duplex-es.hpa" -}}
{{- with .values.autoscaling -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  {{- include "duplex-es.metadata" (list $.root $.component $.name) | nindent 2 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ $.name }}
  minReplicas: {{ .minReplicas }}
  maxReplicas: {{ .maxReplicas }}
  behavior:
    {{- toYaml .behavior | nindent 4 }}
{{- end -}}
{{- end -}}
