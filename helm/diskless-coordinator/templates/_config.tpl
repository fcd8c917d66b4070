{{/* One line of a properties file: (list key value). Whole numbers of a values file are floats to Helm; large ones must not become 1e+06. */}}
{{- define "diskless.property" -}}
{{- if or (include "diskless.isSecret" (index . 0)) (include "diskless.hasLogin" (index . 1)) -}}{{- fail (printf "%s holds a secret, and more people may read ConfigMaps and arguments than secrets. Put its value into a Secret and write secretSettings: {%s: {secret: NAME, key: KEY}} instead (or kafka.sasl.existingSecret, objectStore.existingSecret)" (index . 0) (index . 0)) -}}{{- end -}}
{{- $value := index . 1 -}}
{{- if kindIs "float64" $value -}}
{{- if eq (floor $value) $value -}}{{- $value = printf "%.0f" $value -}}{{- end -}}
{{- end -}}
{{- $text := toString $value | replace "\\" "\\\\" | replace "\n" "\\n" -}}
{{- printf "%s=%s" (index . 0) $text -}}
{{- end -}}

{{/* Where Kafka and the object store are: what every program of the service needs. */}}
{{- define "diskless.kafkaAndStore" -}}
{{- $kafka := .Values.kafka -}}
bootstrap.servers={{ join "," $kafka.bootstrapServers }}
kafka.security.protocol={{ $kafka.securityProtocol }}
{{- if hasPrefix "SASL_" $kafka.securityProtocol }}
kafka.sasl.mechanism={{ $kafka.sasl.mechanism }}
{{- with $kafka.sasl.username }}
{{ include "diskless.property" (list "kafka.sasl.username" .) }}
{{- end }}
{{- end }}
{{- if hasSuffix "SSL" $kafka.securityProtocol }}
{{- if $kafka.tls.caSecret }}
kafka.ssl.ca.location=/etc/diskless/kafka-ca/{{ $kafka.tls.caKey }}
{{- end }}
{{- if $kafka.tls.clientSecret }}
kafka.ssl.certificate.location=/etc/diskless/kafka-client/{{ $kafka.tls.certificateKey }}
kafka.ssl.key.location=/etc/diskless/kafka-client/{{ $kafka.tls.keyKey }}
{{- end }}
{{- end }}
{{- range $key, $value := $kafka.properties }}
{{ include "diskless.property" (list (printf "kafka.%s" $key) $value) }}
{{- end }}
{{ include "diskless.property" (list "object.store.url" .Values.objectStore.url) }}
{{- range $key, $value := .Values.objectStore.options }}
{{ include "diskless.property" (list (printf "object.store.option.%s" $key) $value) }}
{{- end }}
{{- end -}}

{{/* Settings of the service as a whole: what nodes and the programs beside them need. */}}
{{- define "diskless.commonProperties" -}}
{{ include "diskless.kafkaAndStore" . }}
data.dirs=/var/lib/diskless
{{- range $key, $value := .Values.config }}
{{ include "diskless.property" (list $key $value) }}
{{- end }}
{{- end -}}

{{/* Settings of a node: the above, and what it serves. node.id, node.rack and advertised.listeners differ from pod to pod: they are variables. */}}
{{- define "diskless.nodeProperties" -}}
{{- $listeners := list -}}{{- $protocols := list -}}{{- $own := list -}}
{{- range .Values.listeners -}}
{{- $protocol := default (upper .name) .protocol -}}
{{- $listeners = append $listeners (printf "%s://0.0.0.0:%v" .name .port) -}}
{{- if ne (upper .name) $protocol -}}{{- $protocols = append $protocols (printf "%s:%s" .name $protocol) -}}{{- end -}}
{{- $prefix := printf "listener.name.%s" (lower .name) -}}
{{- $folder := printf "/etc/diskless/listeners/%s" (lower .name) -}}
{{- with .tls -}}
{{- if .secret -}}
{{- $own = append $own (printf "%s.ssl.certificate.location=%s/%s" $prefix $folder (default "tls.crt" .certificateKey)) -}}
{{- $own = append $own (printf "%s.ssl.key.location=%s/%s" $prefix $folder (default "tls.key" .keyKey)) -}}
{{- end -}}
{{- with .clientAuth -}}{{- $own = append $own (printf "%s.ssl.client.auth=%s" $prefix .) -}}{{- end -}}
{{- if .clientCaSecret -}}
{{- $own = append $own (printf "%s.ssl.truststore.location=%s-clients/%s" $prefix $folder (default "ca.crt" .clientCaKey)) -}}
{{- end -}}
{{- end -}}
{{- with .sasl -}}{{- with .mechanisms -}}{{- $own = append $own (printf "%s.sasl.enabled.mechanisms=%s" $prefix (join "," .)) -}}{{- end -}}{{- end -}}
{{- range $key, $value := .properties -}}{{- $own = append $own (include "diskless.property" (list (printf "%s.%s" $prefix $key) $value)) -}}{{- end -}}
{{- end -}}
{{ include "diskless.commonProperties" . }}
listeners={{ join "," $listeners }}
{{- with $protocols }}
listener.security.protocol.map={{ join "," . }}
{{- end }}
{{- range $own }}
{{ . }}
{{- end }}
{{- with .Values.security }}
{{- if .usersSecret }}
users.file=/etc/diskless/users/{{ .usersKey }}
{{- end }}
{{- with .authorizer }}
authorizer={{ . }}
{{- end }}
{{- with .superUsers }}
{{ include "diskless.property" (list "super.users" (join ";" .)) }}
{{- end }}
{{- with .acls }}
{{ include "diskless.property" (list "acls" (join ";" .)) }}
{{- end }}
{{- if .internalSecret }}
internal.secret.file=/etc/diskless/internal/{{ .internalSecretKey }}
{{- end }}
{{- with .internalPrincipals }}
{{ include "diskless.property" (list "internal.principals" (join ";" .)) }}
{{- end }}
{{- end }}
{{- with .Values.http }}
http.listener={{ ternary "https" "http" (not (empty .tls.secret)) }}://0.0.0.0:{{ .port }}
{{- if .tls.secret }}
http.ssl.certificate.location=/etc/diskless/http/{{ .tls.certificateKey }}
http.ssl.key.location=/etc/diskless/http/{{ .tls.keyKey }}
{{- end }}
{{- if .tokenSecret }}
http.bearer.token.file=/etc/diskless/http-token/{{ .tokenKey }}
{{- end }}
{{- end }}
{{- if not (hasKey .Values.config "snapshots.peers") }}
snapshots.peers={{ include "diskless.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ (first .Values.listeners).port }}
{{- end }}
{{- end -}}

{{/* Addresses that clients use, by listener. Kubernetes replaces $(POD_NAME) and the like. */}}
{{- define "diskless.advertised" -}}
{{- $inside := printf "$(POD_NAME).%s.%s.svc.%s" (include "diskless.headless" .) .Release.Namespace .Values.clusterDomain -}}
{{- $advertised := list -}}
{{- range .Values.listeners -}}
{{- $own := printf "$(POD_NAME)-%s.%s.svc.%s" (lower .name | replace "_" "-") $.Release.Namespace $.Values.clusterDomain -}}
{{- $host := default (get (dict "nodeport" "$(HOST_IP)" "cluster-ip" $own "internal" $inside) (default "internal" .type)) .advertisedHost -}}
{{- $advertised = append $advertised (printf "%s://%s:%v" .name $host (default .port .advertisedPort)) -}}
{{- end -}}
{{- join "," $advertised -}}
{{- end -}}

{{/* Variables of the settings in secretSettings: (list . of-nodes), those of nodes alone or those of every program. */}}
{{- define "diskless.secretSettingsEnv" -}}
{{- $ofNodes := index . 1 -}}
{{- range $setting, $from := (index . 0).Values.secretSettings }}
{{- if ne $ofNodes (or (hasPrefix "kafka." $setting) (hasPrefix "object.store." $setting)) }}
- name: DISKLESS_{{ $setting | upper | replace "." "_" }}
  valueFrom:
    secretKeyRef: {name: {{ $from.secret | quote }}, key: {{ $from.key | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Variables with credentials, for every program of the service. */}}
{{- define "diskless.secretEnv" -}}
{{- $kafka := .Values.kafka -}}
{{- include "diskless.secretSettingsEnv" (list . false) }}
{{- if and (hasPrefix "SASL_" $kafka.securityProtocol) $kafka.sasl.existingSecret }}
- name: DISKLESS_KAFKA_SASL_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $kafka.sasl.existingSecret | quote }}, key: {{ $kafka.sasl.passwordKey | quote }}}
{{- end }}
{{- if .Values.objectStore.existingSecret }}
{{- range $option, $key := .Values.objectStore.secretKeys }}
- name: DISKLESS_OBJECT_STORE_OPTION_{{ $option | upper | replace "." "_" }}
  valueFrom:
    secretKeyRef: {name: {{ $.Values.objectStore.existingSecret | quote }}, key: {{ $key | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where the monitor's database is, unless on its volume. */}}
{{- define "diskless.monitorStoreEnv" -}}
{{- with .Values.monitor.store }}
{{- if .url -}}
- {name: DISKLESS_MONITOR_STORE, value: {{ .url | quote }}}
{{- if .passwordSecret }}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .passwordSecret | quote }}, key: {{ .passwordKey | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "diskless.sparkMaster" -}}{{ include "diskless.fullname" . }}-spark-master{{- end -}}

{{/* Settings of Spark in the monitor: those of the cluster that the chart runs, and over them those that are given. */}}
{{- define "diskless.sparkProperties" -}}
{{- $properties := dict -}}
{{- with .Values.monitor.spark -}}
{{- if .enabled -}}
{{- $properties = dict "spark.master" (printf "spark://%s:7077" (include "diskless.sparkMaster" $)) "spark.cores.max" (mul .workers .cores) "spark.executor.memory" .executorMemory "spark.driver.host" "$(POD_IP)" "spark.driver.port" 7078 "spark.driver.blockManager.port" 7079 -}}
{{- end -}}
{{- end -}}
{{- range $key, $value := merge (dict) .Values.monitor.sparkProperties $properties }}
- --spark-property
- {{ include "diskless.property" (list $key $value) | quote }}
{{- end }}
{{- end -}}

{{/* Secrets that every program of the service mounts: [{name, secret, path}]. */}}
{{- define "diskless.commonSecrets" -}}
{{- $mounts := list -}}
{{- if hasSuffix "SSL" .Values.kafka.securityProtocol -}}
{{- with .Values.kafka.tls.caSecret -}}{{- $mounts = append $mounts (dict "name" "kafka-ca" "secret" . "path" "kafka-ca") -}}{{- end -}}
{{- with .Values.kafka.tls.clientSecret -}}{{- $mounts = append $mounts (dict "name" "kafka-client" "secret" . "path" "kafka-client") -}}{{- end -}}
{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{/* Secrets that programs beside the nodes mount. */}}
{{- define "diskless.toolSecrets" -}}
{{- $mounts := include "diskless.commonSecrets" . | fromYamlArray -}}
{{- with .Values.clientConfig.secret -}}{{- $mounts = append $mounts (dict "name" "client" "secret" . "path" "client") -}}{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{/* Secrets that nodes mount. */}}
{{- define "diskless.nodeSecrets" -}}
{{- $mounts := include "diskless.commonSecrets" . | fromYamlArray -}}
{{- range .Values.listeners -}}
{{- $name := lower .name | replace "_" "-" -}}
{{- $folder := printf "listeners/%s" (lower .name) -}}
{{- with .tls -}}
{{- with .secret -}}{{- $mounts = append $mounts (dict "name" (printf "listener-%s" $name) "secret" . "path" $folder) -}}{{- end -}}
{{- with .clientCaSecret -}}{{- $mounts = append $mounts (dict "name" (printf "clients-%s" $name) "secret" . "path" (printf "%s-clients" $folder)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.security.usersSecret -}}{{- $mounts = append $mounts (dict "name" "users" "secret" . "path" "users") -}}{{- end -}}
{{- with .Values.security.internalSecret -}}{{- $mounts = append $mounts (dict "name" "internal" "secret" . "path" "internal") -}}{{- end -}}
{{- with .Values.http.tls.secret -}}{{- $mounts = append $mounts (dict "name" "http" "secret" . "path" "http") -}}{{- end -}}
{{- with .Values.http.tokenSecret -}}{{- $mounts = append $mounts (dict "name" "http-token" "secret" . "path" "http-token") -}}{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{/* Mounts of a container: (list . secrets file-of-the-config-map). */}}
{{- define "diskless.mounts" -}}
{{- $root := index . 0 -}}
- {name: config, mountPath: /etc/diskless/coordinator.properties, subPath: {{ index . 2 }}, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range index . 1 }}
- {name: {{ .name }}, mountPath: /etc/diskless/{{ .path }}, readOnly: true}
{{- end }}
{{- with $root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Volumes of a pod: (list . secrets). Secrets are readable by the pod's group alone. */}}
{{- define "diskless.volumes" -}}
{{- $root := index . 0 -}}
- name: config
  configMap: {name: {{ include "diskless.fullname" $root }}}
- name: tmp
  emptyDir: {}
{{- range index . 1 }}
- name: {{ .name }}
  secret: {secretName: {{ .secret | quote }}, defaultMode: 0440}
{{- end }}
{{- with $root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The option with which programs reach secured nodes, as arguments. */}}
{{- define "diskless.clientArguments" -}}
{{- if .Values.clientConfig.secret }}
- --command-config
- /etc/diskless/client/{{ .Values.clientConfig.key }}
{{- end }}
{{- end -}}

{{/* A quantity in bytes: the API server writes one in other units than it was given in. */}}
{{- define "diskless.bytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- printf "%.0f" (mulf (float64 $number) (get $units (trimPrefix $number .) | default 1)) -}}
{{- end -}}

{{/* Stops an upgrade that changes what Kubernetes keeps in a StatefulSet for ever, with what to do. Without a cluster nothing is known. */}}
{{- define "diskless.checkUpgrade" -}}
{{- $name := include "diskless.fullname" . -}}
{{- $kept := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $kept -}}
{{- $claim := default (dict) (first (default (list) $kept.spec.volumeClaimTemplates)) -}}
{{- $wanted := .Values.persistence -}}
{{- $changes := list (list "podManagementPolicy" $kept.spec.podManagementPolicy .Values.podManagementPolicy) (list "persistence.enabled" (not (empty $claim)) $wanted.enabled) -}}
{{- if and $claim $wanted.enabled -}}
{{- $size := $claim.spec.resources.requests.storage -}}
{{- $changes = append $changes (list "persistence.size" $size (ternary $size $wanted.size (eq (include "diskless.bytes" $size) (include "diskless.bytes" $wanted.size)))) -}}
{{- $changes = append $changes (list "persistence.accessModes" $claim.spec.accessModes $wanted.accessModes) -}}
{{- $changes = append $changes (list "persistence.storageClass" (default "" $claim.spec.storageClassName) $wanted.storageClass) -}}
{{- end -}}
{{- range $changes -}}
{{- if ne (toString (index . 1)) (toString (index . 2)) -}}{{- fail (printf "%s is %v in the StatefulSet and cannot become %v there: see \"Growing volumes\" in the chart's README, then `kubectl -n %s delete statefulset %s --cascade=orphan`, which leaves the pods running, and upgrade again" (index . 0) (index . 1) (index . 2) $.Release.Namespace $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Stops an installation that could not work, with what is missing and what to do. */}}
{{- define "diskless.check" -}}
{{- $kafka := .Values.kafka -}}
{{- if not $kafka.bootstrapServers -}}{{- fail "kafka.bootstrapServers is empty: list the brokers of the Kafka cluster, host:port" -}}{{- end -}}
{{- if not .Values.objectStore.url -}}{{- fail "objectStore.url is empty: give the store that the brokers upload to, for instance s3://bucket/prefix" -}}{{- end -}}
{{- if hasPrefix "SASL_" $kafka.securityProtocol -}}
{{- if not $kafka.sasl.username -}}{{- fail (printf "kafka.securityProtocol %s needs kafka.sasl.username" $kafka.securityProtocol) -}}{{- end -}}
{{- if not $kafka.sasl.existingSecret -}}{{- fail (printf "kafka.securityProtocol %s needs kafka.sasl.existingSecret, a secret with the password under the key %s" $kafka.securityProtocol $kafka.sasl.passwordKey) -}}{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if and .value (or (include "diskless.isSecret" .name) (include "diskless.hasLogin" .value)) -}}{{- fail (printf "extraEnv: %s holds a secret: give it by valueFrom.secretKeyRef, or by secretSettings, instead of by value" .name) -}}{{- end -}}
{{- end -}}
{{- $names := list -}}{{- $ports := list (int .Values.http.port) -}}{{- $secure := false -}}
{{- range .Values.listeners -}}
{{- $protocol := default (upper .name) .protocol -}}
{{- if not (has $protocol (list "PLAINTEXT" "SSL" "SASL_PLAINTEXT" "SASL_SSL")) -}}{{- fail (printf "listener %s needs a protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL" .name) -}}{{- end -}}
{{- if and (has (upper .name) (list "PLAINTEXT" "SSL" "SASL_PLAINTEXT" "SASL_SSL")) (ne (upper .name) $protocol) -}}{{- fail (printf "listener %s says by its name that it is %s, and by its protocol that it is %s: rename it" .name (upper .name) $protocol) -}}{{- end -}}
{{- $service := lower .name | replace "_" "-" -}}
{{- if has $service $names -}}{{- fail (printf "listener %s is there twice" .name) -}}{{- end -}}
{{- if has (int .port) $ports -}}{{- fail (printf "listener %s: port %v is taken by another listener or by http.port" .name .port) -}}{{- end -}}
{{- $names = append $names $service -}}
{{- $type := default "internal" .type -}}
{{- if and (ne $type "internal") (gt (len .name) 11) -}}{{- fail (printf "listener %s: the name of a listener of type %s has at most 11 characters, since its Services are named after it" .name $type) -}}{{- end -}}
{{- if and (eq $type "loadbalancer") (not .advertisedHost) -}}{{- fail (printf "listener %s (loadbalancer) needs advertisedHost, the name of a pod's load balancer, such as diskless-$(NODE_ID).example.com" .name) -}}{{- end -}}
{{- if and (eq $type "nodeport") (not (contains "$(NODE_ID)" (toString .advertisedPort))) -}}{{- fail (printf "listener %s (nodeport) needs advertisedPort with the pod's number, such as 3200$(NODE_ID): each pod has a port of its own on all machines" .name) -}}{{- end -}}
{{- if and (contains "$(NODE_ID)" (toString .advertisedPort)) (ne $type "nodeport") -}}{{- fail (printf "listener %s: advertisedPort with $(NODE_ID) needs type nodeport" .name) -}}{{- end -}}
{{- if and .loadBalancerSourceRanges (ne $type "loadbalancer") -}}{{- fail (printf "listener %s: loadBalancerSourceRanges count only with type loadbalancer" .name) -}}{{- end -}}
{{- if and (or .bootstrapAnnotations .podAnnotations) (eq $type "internal") -}}{{- fail (printf "listener %s: bootstrapAnnotations and podAnnotations are for Services of its own: give its type, or leave them out" .name) -}}{{- end -}}
{{- $ports = append $ports (int .port) -}}
{{- $tls := default (dict) .tls -}}{{- $sasl := default (dict) .sasl -}}
{{- if ne $protocol "PLAINTEXT" -}}{{- $secure = true -}}{{- end -}}
{{- if and (hasSuffix "SSL" $protocol) (not $tls.secret) -}}{{- fail (printf "listener %s (%s) needs tls.secret, a secret with its certificate and key" .name $protocol) -}}{{- end -}}
{{- if and $tls.secret (not (hasSuffix "SSL" $protocol)) -}}{{- fail (printf "listener %s has a certificate and speaks %s without TLS: make its protocol %s" .name $protocol (ternary "SASL_SSL" "SSL" (hasPrefix "SASL" $protocol))) -}}{{- end -}}
{{- if and (has $tls.clientAuth (list "requested" "required")) (not $tls.clientCaSecret) -}}{{- fail (printf "listener %s asks for clients' certificates: give tls.clientCaSecret, a secret with their authority" .name) -}}{{- end -}}
{{- if and (hasPrefix "SASL_" $protocol) (not $sasl.mechanisms) -}}{{- fail (printf "listener %s (%s) needs sasl.mechanisms" .name $protocol) -}}{{- end -}}
{{- range $mechanism := $sasl.mechanisms -}}
{{- if and (ne $mechanism "OAUTHBEARER") (not $.Values.security.usersSecret) -}}{{- fail (printf "%s needs security.usersSecret, a secret with the file that `diskless users add` makes" $mechanism) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $secure (not .Values.security.authorizer) -}}{{- fail "a secure listener needs security.authorizer: acls (with security.acls and security.superUsers) or kafka" -}}{{- end -}}
{{- if and .Values.security.acls (ne .Values.security.authorizer "acls") -}}{{- fail "security.acls count only with security.authorizer acls: set it, or leave them out" -}}{{- end -}}
{{- if and .Values.security.superUsers (not .Values.security.authorizer) -}}{{- fail "security.superUsers count only with security.authorizer acls or kafka: set it, or leave them out" -}}{{- end -}}
{{- if ne (default "internal" (first .Values.listeners).type) "internal" -}}{{- fail (printf "the first listener, %s, is the one of the nodes: its type must be internal" (first .Values.listeners).name) -}}{{- end -}}
{{- $main := default (dict) (first .Values.listeners).tls -}}
{{- if and .Values.security.internalPrincipals (not .Values.security.internalSecret) (ne (default "" $main.clientAuth) "required") -}}{{- fail (printf "security.internalPrincipals need certificates on the first listener, %s: set its tls.clientAuth to required, or give security.internalSecret" (first .Values.listeners).name) -}}{{- end -}}
{{- if and .Values.http.tokenSecret (not .Values.http.tls.secret) -}}{{- fail "http.tokenSecret without http.tls.secret would send the token in clear text: give a certificate" -}}{{- end -}}
{{- $page := .Values.monitor.dashboard -}}
{{- if and $page.proxyUserHeader (not $page.proxyAddresses) -}}{{- fail "monitor.dashboard.proxyUserHeader needs monitor.dashboard.proxyAddresses: whose header is believed" -}}{{- end -}}
{{- $first := first .Values.listeners -}}
{{- $tools := or .Values.jobs.audit.enabled .Values.jobs.doctor.enabled .Values.tests.enabled (and .Values.monitor.enabled .Values.monitor.verifyEvery) -}}
{{- if and $tools (ne (default (upper $first.name) $first.protocol) "PLAINTEXT") (not .Values.clientConfig.secret) -}}{{- fail (printf "programs that ask the nodes (monitor.verifyEvery, jobs, tests) must log in on the listener %s: give clientConfig.secret, or switch them off" $first.name) -}}{{- end -}}
{{- end -}}
