{{- define "redelivery.group" -}}
{{- $problem := "config needs a redelivery.yaml with the group" }}
{{- required $problem (get (fromYaml (get .Values.config "redelivery.yaml" | default "")) "group") }}
{{- end }}

{{- define "redelivery.labels" -}}
app.kubernetes.io/name: kafka-redelivery
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: {{ include "redelivery.group" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "redelivery.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "redelivery.checksum" -}}
{{ printf "%s %s" (toJson .Values.config) (toJson .Values.kafka) | sha256sum | trunc 10 }}
{{- end }}

{{- define "redelivery.job" -}}
{{ printf "%s %s" .Chart.Version (toJson .Values) | sha256sum | trunc 10 }}
{{- end }}
