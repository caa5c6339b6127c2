{{/* What the schema cannot see: values that are right each by itself and wrong together. */}}

{{- define "duplex-es.checks" -}}
{{- include "duplex-es.checks.renamed" . -}}
{{- include "duplex-es.checks.store" . -}}
{{- include "duplex-es.checks.gateway" . -}}
{{- if .Values.archive.enabled -}}
{{- if not .Values.archive.to -}}{{- fail "archive.enabled needs archive.to: where closed sessions go" -}}{{- end -}}
{{- if not .Values.archive.operatorKey.existingSecret -}}
{{- fail "archive.enabled needs archive.operatorKey.existingSecret: what is archived is sealed (duplex-es archive key)" -}}
{{- end -}}
{{- end -}}
{{- range $pool := include "duplex-es.pools" . | fromJsonArray -}}
{{- include "duplex-es.checks.pool" (list $ $pool) -}}
{{- end -}}
{{- end -}}

{{/* Keys of earlier charts, each with its new name: a release that sets one must not lose it silently. */}}
{{- define "duplex-es.checks.renamed" -}}
{{- range $old, $new := dict "keda" "autoscaling" -}}
{{- if hasKey $.Values $old -}}
{{- fail (printf "%s is now %s: rename the key (UPGRADING.md)" $old $new) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "duplex-es.checks.store" -}}
{{- $redis := .Values.redis -}}
{{- $external := or $redis.host $redis.url.existingSecret $redis.sentinel.nodes $redis.cluster.nodes -}}
{{- if .Values.valkey.enabled -}}
{{- if $external -}}{{- fail "valkey.enabled runs a store of its own, and redis names another one: which is it? Set one of the two" -}}{{- end -}}
{{- else if not $redis.url.existingSecret -}}
{{- if not $external -}}
{{- fail "no store: set redis.host (or redis.mode with redis.sentinel or redis.cluster, or redis.url.existingSecret), or valkey.enabled=true for a trial" -}}
{{- else if and (eq $redis.mode "standalone") (not $redis.host) -}}
{{- fail "redis.mode is standalone, which needs redis.host; for redis.sentinel.nodes or redis.cluster.nodes set redis.mode" -}}
{{- else if and (eq $redis.mode "sentinel") (not (and $redis.sentinel.nodes $redis.sentinel.service)) -}}
{{- fail "redis.mode is sentinel, which needs redis.sentinel.nodes and redis.sentinel.service" -}}
{{- else if and (eq $redis.mode "cluster") (not $redis.cluster.nodes) -}}
{{- fail "redis.mode is cluster, which needs redis.cluster.nodes" -}}
{{- else if and (eq $redis.mode "cluster") (ne (int $redis.database) 0) -}}
{{- fail "redis.database must be 0 in a cluster" -}}
{{- end -}}
{{- end -}}
{{- if ne (empty $redis.tls.certKey) (empty $redis.tls.keyKey) -}}
{{- fail "redis.tls.certKey and redis.tls.keyKey belong together: set both or none" -}}
{{- end -}}
{{- if and $redis.tls.certKey (not $redis.tls.existingSecret) -}}
{{- fail "redis.tls.certKey needs redis.tls.existingSecret, the Secret it is a key of" -}}
{{- end -}}
{{- end -}}

{{- define "duplex-es.checks.gateway" -}}
{{- with .Values.gateway -}}
{{- if .enabled -}}
{{- if and .ingress.enabled (not .ingress.hosts) -}}{{- fail "gateway.ingress.enabled needs gateway.ingress.hosts" -}}{{- end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) -}}
{{- fail "gateway.httpRoute.enabled needs gateway.httpRoute.parentRefs: the Gateway to attach to" -}}
{{- end -}}
{{- if eq (int .port) (int .metricsPort) -}}
{{- fail (printf "gateway.port and gateway.metricsPort are both %d: metrics are kept away from clients" (int .port)) -}}
{{- end -}}
{{- if and .operator.existingSecret (not .pages.enabled) -}}
{{- fail "gateway.operator.existingSecret opens recorded calls to who has the token, but gateway.pages.enabled is false: there are no pages to see them on" -}}
{{- end -}}
{{- include "duplex-es.checks.tier" (dict "root" $ "where" "gateway" "values" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "duplex-es.checks.pool" -}}
{{- $where := printf "workers.%s" (index . 1) -}}
{{- with include "duplex-es.pool" . | fromJson -}}
{{- if not .model -}}{{- fail (printf "%s.model is empty: which model does the pool serve?" $where) -}}{{- end -}}
{{- include "duplex-es.checks.tier" (dict "root" (index $ 0) "where" $where "values" .) -}}
{{- $most := int (eq .autoscaling.mode "none" | ternary .replicas .autoscaling.maxReplicas) -}}
{{- with .modelCache -}}
{{- if and .enabled .readOnly (not .existingClaim) -}}
{{- fail (printf "%s.modelCache.readOnly needs modelCache.existingClaim: a new volume is empty, and nobody could fill it" $where) -}}
{{- end -}}
{{- if and .enabled (not .existingClaim) (gt $most 1) (eq (join "," .accessModes) "ReadWriteOncePod") -}}
{{- fail (printf "%s has up to %d workers, but modelCache.accessModes lets one pod alone mount the volume" $where $most) -}}
{{- end -}}
{{- end -}}
{{- $options := .options -}}
{{- range $name, $from := .secretOptions -}}
{{- if hasKey $options $name }}{{- fail (printf "%s.options and secretOptions both set %s" $where $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Takes (dict "root" "where" "values"). */}}
{{- define "duplex-es.checks.tier" -}}
{{- $auto := .values.autoscaling -}}
{{- if ne $auto.mode "none" -}}
{{- if gt (int $auto.minReplicas) (int $auto.maxReplicas) -}}
{{- fail (printf "%s.autoscaling: minReplicas %d is more than maxReplicas %d" .where (int $auto.minReplicas) (int $auto.maxReplicas)) -}}
{{- end -}}
{{- if and (eq $auto.mode "hpa") (lt (int $auto.minReplicas) 1) -}}
{{- fail (printf "%s.autoscaling.minReplicas must be at least 1 with mode hpa; only keda can go to 0" .where) -}}
{{- end -}}
{{- if and (eq $auto.mode "keda") (not .root.Values.autoscaling.prometheusAddress) -}}
{{- fail (printf "%s.autoscaling.mode is keda, which needs autoscaling.prometheusAddress" .where) -}}
{{- end -}}
{{- end -}}
{{- with .values.strategy -}}
{{- if and (eq .type "RollingUpdate") (eq (toString .rollingUpdate.maxUnavailable) "0") (eq (toString .rollingUpdate.maxSurge) "0") -}}
{{- fail (printf "%s.strategy: with maxUnavailable 0 and maxSurge 0 no rollout could begin" $.where) -}}
{{- end -}}
{{- end -}}
{{- end -}}
