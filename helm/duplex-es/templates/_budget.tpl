{{/* The time that a stopping pod has: what it needs is added up, and an own grace below that is refused. */}}

{{/* Takes (dict "where" "gateway" "values" …): values has drain and terminationGracePeriodSeconds. */}}
{{- define "duplex-es.grace" -}}
{{- $drain := .values.drain -}}
{{- $needed := add (default 0 $drain.preStopSeconds) $drain.drainSeconds $drain.settleSeconds -}}
{{- $given := .values.terminationGracePeriodSeconds -}}
{{- if and (not (kindIs "invalid" $given)) (lt (int $given) (int $needed)) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d, but stopping takes preStopSeconds %d + drainSeconds %d + settleSeconds %d = %d seconds: the pod would be killed with calls in it. Leave it empty, or make it at least %d" .where (int $given) (int (default 0 $drain.preStopSeconds)) (int $drain.drainSeconds) (int $drain.settleSeconds) (int $needed) (int $needed)) -}}
{{- end -}}
{{- kindIs "invalid" $given | ternary $needed $given | int -}}
{{- end -}}

{{/* The kubelet's own sleep needs no program in the image; it is on by default from 1.30 on. Takes (list $ seconds). */}}
{{- define "duplex-es.preStop" -}}
{{- $root := index . 0 -}}{{- $seconds := int (index . 1) -}}
{{- if $seconds }}
lifecycle:
  preStop:
    {{- if semverCompare ">=1.30.0-0" $root.Capabilities.KubeVersion.Version }}
    sleep: {seconds: {{ $seconds }}}
    {{- else }}
    exec: {command: [sleep, {{ $seconds | quote }}]}
    {{- end }}
{{- end }}
{{- end -}}
