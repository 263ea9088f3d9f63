{{- /* The reference of an image. Arguments: the context, and "agent" or "controller". */ -}}
{{- define "limpet.image" -}}
{{- $top := index . 0 -}}
{{- $program := index . 1 -}}
{{- $whole := (index $top.Values $program).image -}}
{{- if $whole -}}
{{- $whole -}}
{{- else -}}
{{- printf "%s/limpet-%s:%s" $top.Values.image.registry $program ($top.Values.image.tag | default $top.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- /* The labels of all objects, and of the pods. */ -}}
{{- define "limpet.labels" -}}
{{- with .Values.commonLabels }}{{ toYaml . }}
{{ end -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: limpet
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}
