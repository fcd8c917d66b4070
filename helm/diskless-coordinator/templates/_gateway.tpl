{{- define "diskless.gateway" -}}{{ include "diskless.fullname" . }}-gateway{{- end -}}

{{/* HTTP addresses of all gateways. */}}
{{- define "diskless.gatewayAddresses" -}}
{{- $name := include "diskless.gateway" . -}}
{{- $addresses := list -}}
{{- range $number := until (int .Values.gateway.replicaCount) -}}
{{- $addresses = append $addresses (printf "%s-%d.%s-http.%s.svc.%s:%v" $name (add $number $.Values.gateway.nodeIdStart) $name $.Release.Namespace $.Values.clusterDomain $.Values.gateway.http.port) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}

{{/* Settings of a gateway. Its id, zone and advertised address differ from pod to pod: they are variables. */}}
{{- define "diskless.gatewayProperties" -}}
{{- include "diskless.checkGateway" . -}}
{{- $gateway := .Values.gateway -}}
{{ include "diskless.kafkaAndStore" . }}
coordinator.bootstrap.servers={{ include "diskless.bootstrap" . }}
{{- range $key, $value := $gateway.coordinator.properties }}
{{ include "diskless.property" (list (printf "coordinator.client.%s" $key) $value) }}
{{- end }}
{{- with $gateway.coordinator.caSecret }}
coordinator.client.ssl.ca.location=/etc/diskless/coordinator-ca/{{ $gateway.coordinator.caKey }}
{{- end }}
listeners={{ $gateway.protocol }}://0.0.0.0:{{ $gateway.port }}
gateway.relay.brokers={{ $gateway.relay.firstBroker }}-{{ sub (add $gateway.relay.firstBroker $gateway.relay.brokers) 1 }}
{{- if $gateway.tls.secret }}
ssl.certificate.location=/etc/diskless/gateway/{{ $gateway.tls.certificateKey }}
ssl.key.location=/etc/diskless/gateway/{{ $gateway.tls.keyKey }}
{{- end }}
http.listener=http://0.0.0.0:{{ $gateway.http.port }}
{{- range $key := list "metadata.topic" "object.store.wal.prefix" }}
{{- if and (hasKey $.Values.config $key) (not (hasKey $gateway.config $key)) }}
{{ include "diskless.property" (list $key (get $.Values.config $key)) }}
{{- end }}
{{- end }}
{{- range $key, $value := $gateway.config }}
{{ include "diskless.property" (list $key $value) }}
{{- end }}
{{- end -}}

{{/* Secrets that gateways mount. */}}
{{- define "diskless.gatewaySecrets" -}}
{{- $mounts := include "diskless.commonSecrets" . | fromYamlArray -}}
{{- with .Values.gateway.tls.secret -}}{{- $mounts = append $mounts (dict "name" "gateway" "secret" . "path" "gateway") -}}{{- end -}}
{{- with .Values.gateway.coordinator.caSecret -}}{{- $mounts = append $mounts (dict "name" "coordinator-ca" "secret" . "path" "coordinator-ca") -}}{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{/* Stops an installation whose gateways could not work. */}}
{{- define "diskless.checkGateway" -}}
{{- $gateway := .Values.gateway -}}
{{- $first := first .Values.listeners -}}
{{- if and (hasSuffix "SSL" $gateway.protocol) (not $gateway.tls.secret) -}}{{- fail (printf "gateway.protocol %s needs gateway.tls.secret, a secret with its certificate and key" $gateway.protocol) -}}{{- end -}}
{{- if and $gateway.tls.secret (not (hasSuffix "SSL" $gateway.protocol)) -}}{{- fail (printf "gateway.tls.secret is a certificate, and gateway.protocol %s has no TLS: make it %s" $gateway.protocol (ternary "SASL_SSL" "SSL" (hasPrefix "SASL" $gateway.protocol))) -}}{{- end -}}
{{- if ne (hasPrefix "SASL_" $gateway.protocol) (hasPrefix "SASL_" .Values.kafka.securityProtocol) -}}{{- fail (printf "gateway.protocol %s and kafka.securityProtocol %s: clients log in at Kafka through the gateway, so both have logins or none has" $gateway.protocol .Values.kafka.securityProtocol) -}}{{- end -}}
{{- if and (eq .Values.kafka.securityProtocol "SSL") .Values.kafka.tls.clientSecret -}}{{- fail "gateways cannot use kafka.tls.clientSecret: every client would have the rights of that certificate. Name a listener of Kafka with logins (SASL_SSL)" -}}{{- end -}}
{{- if and (eq $gateway.service.type "LoadBalancer") (not $gateway.advertisedHost) -}}{{- fail "gateway.service.type LoadBalancer needs gateway.advertisedHost, the name of a pod's load balancer, such as $(POD_NAME).example.com" -}}{{- end -}}
{{- if and (ne (default (upper $first.name) $first.protocol) "PLAINTEXT") (not $gateway.coordinator.properties) -}}{{- fail (printf "gateways must log in on the listener %s: give gateway.coordinator.properties (security.protocol ..)" $first.name) -}}{{- end -}}
{{- end -}}
