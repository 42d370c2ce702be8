{{/* Labels that a service's pods are selected by. Takes (dict "root" $ "name" "ingress"). */}}
{{- define "catchwater.selector" -}}
app.kubernetes.io/name: catchwater
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "catchwater.labels" -}}
{{ include "catchwater.selector" . }}
app.kubernetes.io/version: {{ include "catchwater.tag" .root | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "catchwater.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "catchwater.image" -}}
{{ .root.Values.image.repository }}/{{ .name }}:{{ include "catchwater.tag" .root }}
{{- end }}

{{/* A connection string without a password. Takes (dict "root" $ "user" "…"). */}}
{{- define "catchwater.databaseURL" -}}
{{- with .root.Values.database -}}
postgres://{{ $.user }}@{{ .host }}:{{ .port }}/{{ .name }}?sslmode={{ .sslmode }}
{{- if .caSecret }}&sslrootcert=/etc/catchwater/postgres-ca/ca.crt{{ end }}
{{- end -}}
{{- end }}

{{/* What every pod is held to: the restricted profile. */}}
{{- define "catchwater.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "catchwater.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The certificate authority of Postgres, as a volume and its mount. */}}
{{- define "catchwater.caVolume" -}}
{{- with .Values.database.caSecret }}
- name: postgres-ca
  secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end }}

{{- define "catchwater.caMount" -}}
{{- if .Values.database.caSecret }}
- {name: postgres-ca, mountPath: /etc/catchwater/postgres-ca, readOnly: true}
{{- end }}
{{- end }}

{{/* Spread over zones and nodes as far as there are some. */}}
{{- define "catchwater.spread" -}}
topologySpreadConstraints:
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "catchwater.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* A duration, such as 1m30s, as seconds, rounded up. */}}
{{- define "catchwater.seconds" -}}
{{- $epoch := toDate "2006-01-02 MST" "1970-01-01 UTC" -}}
{{- $epoch | mustDateModify (toString .) | mustDateModify "999ms" | unixEpoch -}}
{{- end }}

{{/*
Seconds that a service's pods have to stop in. Takes a dict:
  name    the service
  given   its grace in the values, or 0
  needed  seconds that it may take
  spare   seconds more
*/}}
{{- define "catchwater.grace" -}}
{{- if and .given (le (int .given) (int .needed)) -}}
{{- fail (printf "%s.grace: %v seconds are too few: the service may take %v to stop. Give more, or 0 to have it derived" .name .given .needed) -}}
{{- end -}}
{{- .given | default (add .needed .spare) -}}
{{- end }}
