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
