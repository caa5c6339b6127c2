{{/* The store: its URL, and the Secrets that go with it. Passwords are files; the URL says where (`password_file`). */}}

{{- define "duplex-es.store.files" -}}/etc/duplex-es/store{{- end -}}

{{- define "duplex-es.store.passwordSecret" -}}
{{- if .Values.valkey.enabled -}}
{{- default (printf "%s-valkey" (include "duplex-es.fullname" .)) .Values.valkey.existingSecret -}}
{{- else -}}
{{- .Values.redis.auth.existingSecret -}}
{{- end -}}
{{- end -}}

{{- define "duplex-es.store.arguments" -}}
{{- $redis := .Values.redis -}}{{- $files := include "duplex-es.store.files" . -}}
{{- $arguments := dict -}}
{{- if include "duplex-es.store.passwordSecret" . }}{{ $_ := set $arguments "password_file" (printf "%s/password" $files) }}{{ end -}}
{{- if not .Values.valkey.enabled -}}
{{- with $redis.sentinel.username }}{{ $_ := set $arguments "sentinel_username" . }}{{ end -}}
{{- if $redis.sentinel.existingSecret }}{{ $_ := set $arguments "sentinel_password_file" (printf "%s/sentinel-password" $files) }}{{ end -}}
{{- if $redis.tls.enabled -}}
{{- $_ := set $arguments "ssl_cert_reqs" $redis.tls.verify -}}
{{- if $redis.tls.existingSecret -}}
{{- with $redis.tls.caKey }}{{ $_ := set $arguments "ssl_ca_certs" (printf "%s/ca.crt" $files) }}{{ end -}}
{{- with $redis.tls.certKey }}{{ $_ := set $arguments "ssl_certfile" (printf "%s/tls.crt" $files) }}{{ end -}}
{{- with $redis.tls.keyKey }}{{ $_ := set $arguments "ssl_keyfile" (printf "%s/tls.key" $files) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := $redis.parameters }}{{ $_ := set $arguments $name (toString $value) }}{{ end -}}
{{- end -}}
{{- $pairs := list -}}
{{- range $name := keys $arguments | sortAlpha }}{{ $pairs = append $pairs (printf "%s=%s" $name (get $arguments $name | urlquery)) }}{{ end -}}
{{- with $pairs }}?{{ join "&" . }}{{ end -}}
{{- end -}}

{{- define "duplex-es.store.url" -}}
{{- $redis := .Values.redis -}}
{{- $scheme := $redis.tls.enabled | ternary "rediss" "redis" -}}
{{- $user := "" -}}
{{- with $redis.auth.username }}{{ $user = printf "%s@" (. | urlquery) }}{{ end -}}
{{- if .Values.valkey.enabled -}}
redis://{{ include "duplex-es.fullname" . }}-valkey.{{ .Release.Namespace }}.svc:6379/0
{{- else if eq $redis.mode "sentinel" -}}
{{ $scheme }}+sentinel://{{ $user }}{{ join "," $redis.sentinel.nodes }}/{{ $redis.sentinel.service }}/{{ int $redis.database }}
{{- else if eq $redis.mode "cluster" -}}
{{ $scheme }}+cluster://{{ $user }}{{ join "," $redis.cluster.nodes }}/0
{{- else -}}
{{ $scheme }}://{{ $user }}{{ tpl $redis.host . }}:{{ int $redis.port }}/{{ int $redis.database }}
{{- end -}}
{{- include "duplex-es.store.arguments" . -}}
{{- end -}}

{{- define "duplex-es.store.env" -}}
- name: DUPLEX_ES_REDIS_URL
{{- if and .Values.redis.url.existingSecret (not .Values.valkey.enabled) }}
  valueFrom:
    secretKeyRef:
      name: {{ .Values.redis.url.existingSecret }}
      key: {{ .Values.redis.url.key }}
{{- else }}
  value: {{ include "duplex-es.store.url" . | quote }}
{{- end }}
{{- end -}}

{{/* The Secrets as one read-only folder; empty where there is none. */}}
{{- define "duplex-es.store.sources" -}}
{{- $redis := .Values.redis -}}
{{- with include "duplex-es.store.passwordSecret" . }}
- secret:
    name: {{ . }}
    items: [{key: {{ $.Values.valkey.enabled | ternary "redis-password" $redis.auth.passwordKey }}, path: password}]
{{- end }}
{{- if not .Values.valkey.enabled }}
{{- with $redis.sentinel.existingSecret }}
- secret:
    name: {{ . }}
    items: [{key: {{ $redis.sentinel.passwordKey }}, path: sentinel-password}]
{{- end }}
{{- if and $redis.tls.enabled $redis.tls.existingSecret }}
- secret:
    name: {{ $redis.tls.existingSecret }}
    items:
      {{- with $redis.tls.caKey }}
      - {key: {{ . }}, path: ca.crt}
      {{- end }}
      {{- with $redis.tls.certKey }}
      - {key: {{ . }}, path: tls.crt}
      {{- end }}
      {{- with $redis.tls.keyKey }}
      - {key: {{ . }}, path: tls.key}
      {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "duplex-es.store.volume" -}}
{{- with include "duplex-es.store.sources" . | trim }}
- name: store
  projected:
    # Readable for the group alone: fsGroup is the image's.
    defaultMode: 0440
    sources:
      {{- . | nindent 6 }}
{{- end }}
{{- end -}}

{{- define "duplex-es.store.mount" -}}
{{- if include "duplex-es.store.sources" . | trim }}
- {name: store, mountPath: {{ include "duplex-es.store.files" . }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* The ports of the store, for network policies. */}}
{{- define "duplex-es.store.ports" -}}
{{- $ports := list -}}
{{- if .Values.valkey.enabled -}}
{{- $ports = list 6379 -}}
{{- else if eq .Values.redis.mode "standalone" -}}
{{- $ports = list (int .Values.redis.port) -}}
{{- else -}}
{{- $default := eq .Values.redis.mode "sentinel" | ternary 26379 6379 -}}
{{- range (eq .Values.redis.mode "sentinel" | ternary .Values.redis.sentinel.nodes .Values.redis.cluster.nodes) -}}
{{- $ports = append $ports (regexMatch ":[0-9]+$" . | ternary (regexFind "[0-9]+$" . | int) $default) -}}
{{- end -}}
{{- if eq .Values.redis.mode "sentinel" }}{{ $ports = append $ports (int .Values.redis.port) }}{{ end -}}
{{- end -}}
{{- range $ports | uniq }}
- {protocol: TCP, port: {{ . }}}
{{- end }}
{{- end -}}
