{{/* Pieces of network policies. */}}

{{- define "duplex-es.monitoringPeers" -}}
{{- if .Values.networkPolicy.monitoring -}}
{{ include "duplex-es.rendered" (list . .Values.networkPolicy.monitoring) }}
{{- else -}}
- namespaceSelector: {}
{{- end -}}
{{- end -}}

{{/* Where every program goes: name servers, the store, and what the operator adds. */}}
{{- define "duplex-es.egress" -}}
- ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]
  {{- with .Values.networkPolicy.dns }}
  to:
    {{- include "duplex-es.rendered" (list $ .) | nindent 4 }}
  {{- end }}
- ports:
    {{- include "duplex-es.store.ports" . | nindent 4 }}
  {{- if .Values.valkey.enabled }}
  to:
    - podSelector:
        matchLabels:
          {{- include "duplex-es.selector" (list . "valkey") | nindent 10 }}
  {{- else }}
  {{- with .Values.networkPolicy.redis }}
  to:
    {{- include "duplex-es.rendered" (list $ .) | nindent 4 }}
  {{- end }}
  {{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{ include "duplex-es.rendered" (list $ .) }}
{{- end }}
{{- end -}}
