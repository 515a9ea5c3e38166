{{- define "redelivery.group" -}}
{{- range .Values.env }}
{{- if eq .name "REDELIVERY_GROUP" }}{{ fail "set the value group instead of REDELIVERY_GROUP in env" }}{{ end }}
{{- end }}
{{- $group := .Values.group | default (get (fromYaml (get .Values.config "redelivery.yaml" | default "")) "group") }}
{{- $group = required "config needs a redelivery.yaml with the group" $group | toString }}
{{- if contains "${" $group }}
{{- fail "redelivery.yaml takes the group from a variable, which the chart does not know; set the value group" }}
{{- end }}
{{- $group }}
{{- end }}

{{- /* The user of a role, and its Secret: as `redelivery topology acls` names them. */}}
{{- define "redelivery.user" -}}
{{- $name := printf "%s-%s" (include "redelivery.group" (first .)) (last .) | lower }}
{{- regexReplaceAll "[^a-z0-9.-]+" $name "-" | trimAll ".-" }}
{{- end }}

{{- define "redelivery.labels" -}}
app.kubernetes.io/name: kafka-redelivery
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: {{ include "redelivery.group" . | trunc 63 | trimAll "._-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "redelivery.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "redelivery.checksum" -}}
{{ printf "%s %s %s" (toJson .Values.config) (toJson .Values.kafka) .Values.group | sha256sum | trunc 10 }}
{{- end }}

{{- define "redelivery.job" -}}
{{ printf "%s %s" .Chart.Version (toJson .Values) | sha256sum | trunc 10 }}
{{- end }}
