{{/* What monitors and rules have alike. */}}

{{/* Metadata with the labels that an operator picks objects by. Takes (list $ component name). */}}
{{- define "duplex-es.watchedMetadata" -}}
{{- $root := index . 0 -}}
{{- $metadata := include "duplex-es.metadata" . | fromYaml -}}
{{- $_ := set $metadata "labels" (merge (dict) $root.Values.metrics.additionalLabels $metadata.labels) -}}
{{- toYaml $metadata -}}
{{- end -}}

{{- define "duplex-es.scrape" -}}
path: /metrics
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
