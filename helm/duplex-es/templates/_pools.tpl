{{/* The deployment file of a pool: what `--deployment` reads. Takes (list $ pool's name). */}}
{{- define "duplex-es.deploymentFile" -}}
{{- with include "duplex-es.pool" . | fromJson -}}
model = {{ .model | toJson }}
session_mode = "duplex"
{{- with .python }}
python = {{ . | toJson }}
{{- end }}

[duplex_session]
max_sessions = {{ int .slots }}
disconnect_grace_s = {{ .sessions.disconnectGraceSeconds | toJson }}
idle_timeout_s = {{ .sessions.idleTimeoutSeconds | toJson }}
max_session_s = {{ .sessions.maxSessionSeconds | toJson }}
drain_s = {{ .drain.drainSeconds | toJson }}
{{- if or .options .secretOptions }}

[options]
{{- range $name, $value := .options }}
{{ $name }} = {{ $value | toJson }}
{{- end }}
{{- range $name, $from := .secretOptions }}
{{ $name }} = "/etc/duplex-es/options/{{ $name }}/value"
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* A container's resources with its GPUs among requests and limits. Takes a pool. */}}
{{- define "duplex-es.gpuResources" -}}
{{- $resources := mustDeepCopy .resources -}}
{{- if gt (int .gpu.count) 0 -}}
{{- range $part := list "requests" "limits" -}}
{{- $_ := set $resources $part (merge (dict $.gpu.resourceName (int $.gpu.count)) (default (dict) (get $resources $part))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* PromQL: the sessions that a pool holds and those that wait for its model. Takes (list $ pool's name). Workers that
are not seen are no workers only where there may be none; elsewhere the query has no answer then, and the fallback holds. */}}
{{- define "duplex-es.demand" -}}
{{- $root := index . 0 -}}
{{- $pool := include "duplex-es.pool" . | fromJson -}}
{{- $ns := $root.Release.Namespace -}}{{- $name := include "duplex-es.fullname" $root -}}
{{- $used := printf `sum(duplex_worker_slots{state="used",namespace="%s",pod=~"%s-worker-%s-[a-z0-9]+-[a-z0-9]+"})` $ns $name (index . 1) -}}
{{- if eq (int $pool.autoscaling.minReplicas) 0 }}{{ $used = printf "(%s or vector(0))" $used }}{{ end -}}
{{ $used }} + (max(duplex_fleet_waiting_sessions{model={{ $pool.model | toJson }},namespace="{{ $ns }}"}) or vector(0))
{{- end -}}
