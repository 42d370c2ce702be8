package test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const release = "catchwater"

var releaseOptions = common.ReleaseOptions{Name: release, Namespace: release, Revision: 1, IsInstall: true}

// object is what every kind has: a type and metadata.
type object interface {
	GetName() string
	GetLabels() map[string]string
}

// kinds are the types that manifests are decoded into, by API version and kind.
var kinds = map[string]func() object{
	"v1/ServiceAccount":                       func() object { return &core.ServiceAccount{} },
	"v1/ConfigMap":                            func() object { return &core.ConfigMap{} },
	"v1/Service":                              func() object { return &core.Service{} },
	"apps/v1/Deployment":                      func() object { return &apps.Deployment{} },
	"batch/v1/Job":                            func() object { return &batch.Job{} },
	"autoscaling/v2/HorizontalPodAutoscaler":  func() object { return &autoscaling.HorizontalPodAutoscaler{} },
	"policy/v1/PodDisruptionBudget":           func() object { return &policy.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy":      func() object { return &networking.NetworkPolicy{} },
	"networking.k8s.io/v1/Ingress":            func() object { return &networking.Ingress{} },
	"keda.sh/v1alpha1/ScaledObject":           func() object { return &keda.ScaledObject{} },
	"keda.sh/v1alpha1/TriggerAuthentication":  func() object { return &keda.TriggerAuthentication{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() object { return &monitoring.ServiceMonitor{} },
	"monitoring.coreos.com/v1/PodMonitor":     func() object { return &monitoring.PodMonitor{} },
	"monitoring.coreos.com/v1/PrometheusRule": func() object { return &monitoring.PrometheusRule{} },
	"postgresql.cnpg.io/v1/Cluster":           func() object { return &cluster{} },
	"postgresql.cnpg.io/v1/ScheduledBackup":   func() object { return &scheduledBackup{} },
	"barmancloud.cnpg.io/v1/ObjectStore":      func() object { return &objectStore{} },
}

// decode reads manifests strictly: a kind that is not known, a field that its
// type does not have, and a field given twice fail.
func decode(t *testing.T, file string, manifests []byte) []object {
	t.Helper()
	var objects []object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var kind *meta.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatalf("%s: %v\n%s", file, err, document)
		}
		if kind == nil {
			continue // nothing but comments
		}
		make, ok := kinds[kind.APIVersion+"/"+kind.Kind]
		if !ok {
			t.Fatalf("%s: no type is known for %s %s", file, kind.APIVersion, kind.Kind)
		}
		decoded := make()
		if err := yaml.UnmarshalStrict(document, decoded); err != nil {
			t.Errorf("%s: %s: %v", file, kind.Kind, err)
		}
		objects = append(objects, decoded)
	}
}

// chartOnce reads the chart as Helm does, which tells each time of the links to
// the folders of rules and dashboards.
var chartOnce = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(filepath.Join(root, "deploy", "chart")) })

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := chartOnce()
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// renderText returns a chart's manifests by template, with values (YAML) in the
// place of its own, and one source when they have none.
func renderText(t *testing.T, loaded *chart.Chart, values string) (map[string]string, error) {
	t.Helper()
	given := make(map[string]any)
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	if given["sources"] == nil {
		given["sources"] = map[string]any{"answers": map[string]any{
			"preset": "answerline", "secrets": []any{map[string]any{"file": "/etc/catchwater/secrets/answers"}},
		}}
	}
	all, err := util.ToRenderValues(loaded, given, releaseOptions, nil)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.RenderWithContext(t.Context(), loaded, all)
}

// TestValuesThatAreRefused asks that what the chart does not know, or what cannot
// work, is an error that names it.
func TestValuesThatAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                                         "sources",
		"{ingres: {maxReplicas: 3}}":                 "ingres",
		"{processor: {maxReplica: 3}}":               "maxReplica",
		"{nats: {replicas: 2}}":                      "replicas",
		"{database: {sslmode: prefer}}":              "sslmode",
		"{ingress: {env: {catchwater_flushers: 4}}}": "catchwater_flushers",
		"{sources: {answers: {secrets: [{env: ANSWERLINE_KEY}]}}}": "preset",
		"{tracing: {sampleRatio: 10}}":                             "sampleRatio",
		"{database: {caSecret: Not_A_Name}}":                       "caSecret",
	} {
		given := make(map[string]any)
		if err := yaml.Unmarshal([]byte(values), &given); err != nil {
			t.Fatal(err)
		}
		if _, err := util.ToRenderValues(loadChart(t), given, releaseOptions, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

// manifests are what the chart makes.
type manifests struct {
	objects []object
	values  map[string]any
}

func render(t *testing.T, values string) manifests {
	t.Helper()
	return renderChart(t, loadChart(t), values)
}

func renderChart(t *testing.T, loaded *chart.Chart, values string) manifests {
	t.Helper()
	rendered, err := renderText(t, loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	m := manifests{values: loaded.Values}
	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			m.objects = append(m.objects, decode(t, name, []byte(text))...)
		}
	}
	return m
}

// all returns the manifests of a type.
func all[T object](m manifests) []T {
	var found []T
	for _, o := range m.objects {
		if typed, ok := o.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// named returns the manifest of a type and name.
func named[T object](t *testing.T, m manifests, name string) T {
	t.Helper()
	for _, o := range all[T](m) {
		if o.GetName() == name {
			return o
		}
	}
	var none T
	t.Fatalf("there is no %T %s", none, name)
	return none
}

func TestEveryTemplateRenders(t *testing.T) {
	for name, values := range map[string]string{
		"as it is": "{}",
		"everything": `
image: {repository: registry.example.org/catchwater, tag: 1.2.3, pullSecrets: [{name: registry}]}
nats: {credentialsSecret: catchwater-nats}
tracing: {endpoint: "http://jaeger.observability:4318"}
ingress:
  env: {CATCHWATER_BODY_MEMORY: 134217728, CATCHWATER_RETRY_AFTER: 10s}
  route: {enabled: true, className: nginx, host: hooks.example.org, tlsSecret: hooks-tls, annotations: {a: b}}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}], outsidePorts: [443, 8443]}
monitoring: {labels: {release: prometheus}}
`,
		"as little as can be": `
database: {caSecret: "", sslmode: disable}
processor: {keda: false}
networkPolicy: {enabled: false}
monitoring: {enabled: false}
`,
	} {
		t.Run(name, func(t *testing.T) {
			m := render(t, values)
			seen := make(map[string]bool)
			for _, o := range m.objects {
				key := fmt.Sprintf("%T/%s", o, o.GetName())
				if seen[key] {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = true
				if o.GetName() == "" || o.GetLabels()["app.kubernetes.io/name"] != "catchwater" {
					t.Errorf("%s has no name, or not the labels", key)
				}
			}
			checkPods(t, m)
			checkReferences(t, m)
		})
	}
}
