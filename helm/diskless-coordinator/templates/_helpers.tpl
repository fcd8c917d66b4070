{{- define "diskless.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of objects: at most 40 characters, so that what is added stays below the 63 of a label. */}}
{{- define "diskless.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "diskless.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "diskless.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "diskless.headless" -}}{{ include "diskless.fullname" . }}-nodes{{- end -}}

{{- define "diskless.selector" -}}
app.kubernetes.io/name: {{ include "diskless.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "diskless.labels" -}}
{{ include "diskless.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of pods: without the versions of chart and service, which would replace pods that stay the same. */}}
{{- define "diskless.podLabels" -}}
{{ include "diskless.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: (list . name component annotations), and labels of its own as a fifth. */}}
{{- define "diskless.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "diskless.labels" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 2 }}
{{- if gt (len .) 4 }}{{- with index . 4 }}
  {{- toYaml . | nindent 2 }}
{{- end }}{{- end }}
{{- $annotations := merge (dict) (index . 3) $root.Values.commonAnnotations }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image: (list . values). */}}
{{- define "diskless.image" -}}
{{- $image := index . 1 -}}
{{- $name := $image.repository -}}
{{- with $image.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default (index . 0).Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "diskless.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "diskless.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Addresses of all pods: (list . port). */}}
{{- define "diskless.podAddresses" -}}
{{- $root := index . 0 -}}{{- $port := index . 1 -}}
{{- $addresses := list -}}
{{- range $number := until (int $root.Values.replicaCount) -}}
{{- $pod := printf "%s-%d" (include "diskless.fullname" $root) (add $number $root.Values.nodeIdStart) -}}
{{- $addresses = append $addresses (printf "%s.%s.%s.svc.%s:%v" $pod (include "diskless.headless" $root) $root.Release.Namespace $root.Values.clusterDomain $port) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* Where programs in the cluster bootstrap from. */}}
{{- define "diskless.bootstrap" -}}
{{- printf "%s.%s.svc.%s:%v" (include "diskless.fullname" .) .Release.Namespace .Values.clusterDomain (first .Values.listeners).port -}}
{{- end -}}

{{/* What a Service or port is called for a listener: at most 15 characters, DNS. */}}
{{- define "diskless.portName" -}}
{{- printf "kafka-%v" .port -}}
{{- end -}}

{{/* The ports of the listeners that have no Services of their own. */}}
{{- define "diskless.internalPorts" -}}
{{- range .Values.listeners }}
{{- if eq (default "internal" .type) "internal" }}
- {name: {{ include "diskless.portName" . }}, port: {{ .port }}, targetPort: {{ include "diskless.portName" . }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Names of scrape jobs: the alerts find targets that are down by these words. */}}
{{- define "diskless.job" -}}
{{- $root := index . 0 -}}{{- $words := index . 1 -}}{{- $fullname := include "diskless.fullname" $root -}}
{{- if contains $words $fullname -}}{{- $fullname -}}{{- else -}}{{- printf "%s-%s" $fullname $words -}}{{- end -}}
{{- end -}}

{{- define "diskless.podSettings" -}}
serviceAccountName: {{ include "diskless.serviceAccount" . }}
# Nothing here talks to the API server.
automountServiceAccountToken: false
# Variables of Services would look like settings.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end -}}

{{/* Where a pod may run: nodeSelector, tolerations, affinity of the given values. */}}
{{- define "diskless.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
