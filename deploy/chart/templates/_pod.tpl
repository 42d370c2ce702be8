{{/*
The pods of a service. Takes a dict:
  root      the chart's context
  name      the service
  settings  its part of the values
  ports     its ports by name; health is one of them
  streams   whether it makes streams
  env       variables of its own
  grace     seconds to stop in
  preStop   seconds between unready and SIGTERM, or 0
*/}}
{{- define "catchwater.pods" -}}
{{- $v := .root.Values -}}
{{- $role := printf "catchwater_%s" .name -}}
metadata:
  labels: {{- include "catchwater.labels" . | nindent 4 }}
  annotations:
    # The sources file is read at the start only.
    catchwater/sources: {{ toYaml $v.sources | sha256sum }}
spec:
  serviceAccountName: {{ .root.Release.Name }}
  {{- include "catchwater.podSecurity" .root | nindent 2 }}
  terminationGracePeriodSeconds: {{ .grace }}
  {{- include "catchwater.spread" . | nindent 2 }}
  containers:
    - name: {{ .name }}
      image: {{ include "catchwater.image" . }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      {{- include "catchwater.containerSecurity" . | nindent 6 }}
      env:
        - {name: DATABASE_URL, value: {{ include "catchwater.databaseURL" (dict "root" .root "user" $role) | quote }}}
        - {name: CATCHWATER_DATABASE_PASSWORD_FILE, value: /etc/catchwater/database/{{ $role }}}
        - {name: NATS_URL, value: {{ $v.nats.url | quote }}}
        {{- if $v.nats.credentialsSecret }}
        - {name: CATCHWATER_NATS_CREDENTIALS, value: /etc/catchwater/nats/nats.creds}
        {{- end }}
        {{- if .streams }}
        - {name: CATCHWATER_NATS_REPLICAS, value: {{ $v.nats.replicas | quote }}}
        {{- end }}
        - {name: CATCHWATER_CONFIG, value: /etc/catchwater/sources/catchwater.yaml}
        - {name: CATCHWATER_HEALTH_LISTEN, value: {{ printf ":%v" .ports.health | quote }}}
        {{- with $v.tracing }}
        {{- if .endpoint }}
        - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }}}
        - {name: CATCHWATER_TRACE_SAMPLE_RATIO, value: {{ toJson .sampleRatio | quote }}}
        {{- end }}
        {{- end }}
        {{- range $name, $value := merge (dict) .settings.env .env }}
        - {name: {{ $name }}, value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}}
        {{- end }}
      ports:
        {{- range $name, $port := .ports }}
        - {name: {{ $name }}, containerPort: {{ $port }}}
        {{- end }}
      livenessProbe: {httpGet: {path: /livez, port: health}, periodSeconds: 10, failureThreshold: 3}
      readinessProbe: {httpGet: {path: /readyz, port: health}, periodSeconds: 2, failureThreshold: 2}
      {{- if .preStop }}
      lifecycle: {preStop: {sleep: {seconds: {{ .preStop }}}}}
      {{- end }}
      resources: {{- toYaml .settings.resources | nindent 8 }}
      volumeMounts:
        - {name: sources, mountPath: /etc/catchwater/sources, readOnly: true}
        - {name: secrets, mountPath: /etc/catchwater/secrets, readOnly: true}
        - {name: database, mountPath: /etc/catchwater/database, readOnly: true}
        {{- include "catchwater.caMount" .root | nindent 8 }}
        {{- if $v.nats.credentialsSecret }}
        - {name: nats, mountPath: /etc/catchwater/nats, readOnly: true}
        {{- end }}
  volumes:
    - name: sources
      configMap: {name: {{ .root.Release.Name }}-sources}
    - name: secrets
      secret: {secretName: {{ $v.sourceSecrets }}, defaultMode: 0440}
    - name: database # of all the roles' passwords, its own
      secret: {secretName: {{ $v.database.roleSecret }}, defaultMode: 0440, items: [{key: {{ $role }}, path: {{ $role }}}]}
    {{- include "catchwater.caVolume" .root | nindent 4 }}
    {{- with $v.nats.credentialsSecret }}
    - name: nats
      secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: nats.creds, path: nats.creds}]}
    {{- end }}
{{- end }}
