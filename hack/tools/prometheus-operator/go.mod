// The CustomResourceDefinitions of ServiceMonitor and PrometheusRule, for a cluster that has none.
module jervis.dev/hack/tools/prometheus-operator

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0 // indirect
