{{/* Names, labels, images and small pieces that several objects share. */}}

{{- define "duplex-es.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* 40 characters at most, so that "-worker-<pool>" still makes a legal name. */}}
{{- define "duplex-es.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "duplex-es.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "duplex-es.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Selectors never change over the life of a release: these three labels and nothing else. Takes (list $ component). */}}
{{- define "duplex-es.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "duplex-es.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object. Takes (list $ component). */}}
{{- define "duplex-es.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "duplex-es.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: duplex-es
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object. Takes (list $ component name), and a fourth: annotations of its own. */}}
{{- define "duplex-es.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 2 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "duplex-es.labels" (list $root (index . 1)) | nindent 2 }}
{{- $own := dict -}}
{{- if gt (len .) 3 }}{{ $own = default (dict) (index . 3) }}{{ end -}}
{{- with merge (dict) $own $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image with registry, digest before tag. Takes (list $ image). */}}
{{- define "duplex-es.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- $registry := default $root.Values.global.imageRegistry $image.registry -}}
{{- if $registry }}{{ trimSuffix "/" $registry }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default $root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end -}}

{{- define "duplex-es.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "duplex-es.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Any value as YAML with its templates rendered. Takes (list $ value). */}}
{{- define "duplex-es.rendered" -}}
{{- $value := index . 1 -}}
{{- tpl (kindIs "string" $value | ternary $value (toYaml $value)) (index . 0) -}}
{{- end -}}

{{/* A pool with what it says over what all pools start from, as JSON. Takes (list $ name). */}}
{{- define "duplex-es.pool" -}}
{{- $root := index . 0 -}}
{{- mustMergeOverwrite (mustDeepCopy $root.Values.workerDefaults) (mustDeepCopy (index $root.Values.workers (index . 1) | default dict)) | mustToJson -}}
{{- end -}}

{{/* The names of the pools that run, as a JSON list. */}}
{{- define "duplex-es.pools" -}}
{{- $names := list -}}
{{- range $name, $pool := .Values.workers -}}
{{- if not (kindIs "invalid" $pool) -}}
{{- if (include "duplex-es.pool" (list $ $name) | fromJson).enabled }}{{ $names = append $names $name }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $names | sortAlpha | mustToJson -}}
{{- end -}}
