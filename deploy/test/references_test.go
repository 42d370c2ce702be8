package test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/catchwater/catchwater/pkg/bus"
	"github.com/catchwater/catchwater/pkg/pgtest"
)

// selects reports whether a selector takes a pod or Service with these labels.
func selects(t *testing.T, selector *meta.LabelSelector, of map[string]string) bool {
	t.Helper()
	parsed, err := meta.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Matches(labels.Set(of))
}

// checkReferences holds everything that names or selects something else to what
// is there.
func checkReferences(t *testing.T, m manifests) {
	t.Helper()
	deployments := make(map[string]*apps.Deployment)
	for _, d := range all[*apps.Deployment](m) {
		deployments[d.Name] = d
		if !selects(t, d.Spec.Selector, d.Spec.Template.Labels) {
			t.Errorf("%s does not select its pods", d.Name)
		}
		for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
			if !selects(t, spread.LabelSelector, d.Spec.Template.Labels) {
				t.Errorf("%s is spread by others' pods", d.Name)
			}
		}
		if named[*core.ServiceAccount](t, m, d.Spec.Template.Spec.ServiceAccountName) == nil {
			t.Errorf("%s has no account", d.Name)
		}
	}
	// Each Deployment has one Service, and one budget, of its name.
	for name, d := range deployments {
		service := named[*core.Service](t, m, name)
		if !selects(t, &meta.LabelSelector{MatchLabels: service.Spec.Selector}, d.Spec.Template.Labels) {
			t.Errorf("Service %s selects none of its pods", name)
		}
		for _, port := range service.Spec.Ports {
			assertPort(t, d, port.TargetPort.StrVal)
		}
		if !selects(t, named[*policy.PodDisruptionBudget](t, m, name).Spec.Selector, d.Spec.Template.Labels) {
			t.Errorf("the budget of %s guards none of its pods", name)
		}
		for other := range deployments {
			if other != name && selects(t, d.Spec.Selector, deployments[other].Spec.Template.Labels) {
				t.Errorf("%s takes the pods of %s for its own", name, other)
			}
		}
	}
	for _, scaler := range all[*autoscaling.HorizontalPodAutoscaler](m) {
		if d := deployments[scaler.Spec.ScaleTargetRef.Name]; d == nil || d.Spec.Replicas != nil {
			t.Errorf("%s scales %s, which is not there or says its replicas itself", scaler.Name, scaler.Spec.ScaleTargetRef.Name)
		}
	}
	for _, scaled := range all[*keda.ScaledObject](m) {
		if d := deployments[scaled.Spec.ScaleTargetRef.Name]; d == nil || d.Spec.Replicas != nil {
			t.Errorf("%s scales %s, which is not there or says its replicas itself", scaled.Name, scaled.Spec.ScaleTargetRef.Name)
		}
		for _, trigger := range scaled.Spec.Triggers {
			if trigger.AuthenticationRef != nil {
				named[*keda.TriggerAuthentication](t, m, trigger.AuthenticationRef.Name)
			}
		}
	}
	for _, monitor := range all[*monitoring.ServiceMonitor](m) {
		service := named[*core.Service](t, m, monitor.Name)
		if !selects(t, &monitor.Spec.Selector, service.Labels) {
			t.Errorf("monitor %s selects no Service", monitor.Name)
		}
		for _, endpoint := range monitor.Spec.Endpoints {
			if !slices.ContainsFunc(service.Spec.Ports, func(p core.ServicePort) bool { return p.Name == endpoint.Port }) {
				t.Errorf("monitor %s scrapes a port %s that is none of the Service's", monitor.Name, endpoint.Port)
			}
		}
	}
	for _, route := range all[*networking.Ingress](m) {
		backend := route.Spec.Rules[0].HTTP.Paths[0].Backend.Service
		service := named[*core.Service](t, m, backend.Name)
		if !slices.ContainsFunc(service.Spec.Ports, func(p core.ServicePort) bool { return p.Name == backend.Port.Name }) {
			t.Errorf("deliveries are led to a port %s that is none of the Service's", backend.Port.Name)
		}
	}
	checkNetworkPolicies(t, m, deployments)
}

// checkNetworkPolicies asks that every policy is about some of our pods, and that
// each pod is let out to the broker and to the database.
func checkNetworkPolicies(t *testing.T, m manifests, deployments map[string]*apps.Deployment) {
	t.Helper()
	policies := all[*networking.NetworkPolicy](m)
	if len(policies) == 0 {
		return
	}
	for _, p := range policies {
		if !slices.ContainsFunc(slices.Collect(maps.Values(deployments)), func(d *apps.Deployment) bool {
			return selects(t, &p.Spec.PodSelector, d.Spec.Template.Labels)
		}) {
			t.Errorf("policy %s is about no pod", p.Name)
		}
	}
	for name, d := range deployments {
		var in, out []string
		for _, p := range policies {
			if !selects(t, &p.Spec.PodSelector, d.Spec.Template.Labels) {
				continue
			}
			for _, rule := range p.Spec.Egress {
				for _, port := range rule.Ports {
					out = append(out, port.Port.String())
				}
			}
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					in = append(in, port.Port.String())
					assertPort(t, d, port.Port.StrVal, "http") // only the ingress has http
				}
			}
		}
		for _, port := range []string{"53", "5432", "4222"} {
			if !slices.Contains(out, port) {
				t.Errorf("%s is not let out to port %s", name, port)
			}
		}
		if out := slices.Contains(out, "443"); out != !strings.HasSuffix(name, "-ingress") {
			t.Errorf("%s is let out to port 443: %v", name, out)
		}
		if !slices.Contains(in, "health") || slices.Contains(in, "http") != strings.HasSuffix(name, "-ingress") {
			t.Errorf("%s is reached on %v", name, in)
		}
	}
}

// assertPort fails when none of a Deployment's container ports has the name.
func assertPort(t *testing.T, d *apps.Deployment, name string, or ...string) {
	t.Helper()
	if slices.Contains(or, name) {
		return
	}
	if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p core.ContainerPort) bool { return p.Name == name }) {
		t.Errorf("%s has no port %s", d.Name, name)
	}
}

// TestTracesAreLetOut holds the port that traces are sent to, said or not, to what
// the network policies let out.
func TestTracesAreLetOut(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://jaeger.observability:4318": "4318", "https://traces.example.org/otlp": "443", "http://traces": "80", "": "",
	} {
		m := render(t, "tracing: {endpoint: \""+endpoint+"\"}")
		rules := named[*networking.NetworkPolicy](t, m, release).Spec.Egress
		var ports []string
		for _, rule := range rules[2:] { // after name servers, and the database
			ports = append(ports, rule.Ports[0].Port.String())
		}
		if strings.Join(ports, " ") != want {
			t.Errorf("%s: ports %v are let out to", endpoint, ports)
		}
	}
}

// TestTheBrokerIsReached holds the ports in the broker's address, said or not, to
// what the network policies let out.
func TestTheBrokerIsReached(t *testing.T) {
	for address, want := range map[string]string{
		"nats://nats:4222": "4222", "nats://10.0.0.1": "4222", "tls://a.example.org:4443/": "4443",
		"nats://a:4222, nats://b:5222,nats://c:4222": "4222 5222",
	} {
		m := render(t, "nats: {url: \""+address+"\"}")
		for _, service := range []string{"ingress", "processor", "reconciler"} {
			var ports []string
			for _, port := range named[*networking.NetworkPolicy](t, m, release+"-"+service+"-out").Spec.Egress[0].Ports {
				ports = append(ports, port.Port.String())
			}
			if strings.Join(ports, " ") != want {
				t.Errorf("%s: %s is let out to ports %v", address, service, ports)
			}
		}
	}
}

// TestKEDAEncryptsAsTheServicesDo has KEDA, which has only the authorities of its
// image, ask for as much of the connection as it can.
func TestKEDAEncryptsAsTheServicesDo(t *testing.T) {
	for values, want := range map[string]string{
		"{}": "require", "{database: {caSecret: \"\"}}": "verify-full",
		"{database: {sslmode: disable, caSecret: \"\"}}": "disable", "{database: {sslmode: disable}}": "disable",
		"{database: {sslmode: require}}": "require",
	} {
		for _, trigger := range named[*keda.ScaledObject](t, render(t, values), release+"-processor").Spec.Triggers {
			if got, ok := trigger.Metadata["sslmode"]; ok && got != want {
				t.Errorf("%s: KEDA has sslmode %s, want %s", values, got, want)
			}
		}
	}
}

// TestTheProcessorScales holds both of KEDA's triggers to what there is: the
// stream and the consumer by their names, the rows by the query itself, run as
// the role that KEDA logs in with.
func TestTheProcessorScales(t *testing.T) {
	scaled := named[*keda.ScaledObject](t, render(t, "{}"), release+"-processor")
	triggers := make(map[string]map[string]string)
	for _, trigger := range scaled.Spec.Triggers {
		triggers[trigger.Type] = trigger.Metadata
	}
	bell, rows := triggers["nats-jetstream"], triggers["postgresql"]
	if bell == nil || rows == nil {
		t.Fatalf("it scales on %v, want the doorbell's lag and the rows that are due", triggers)
	}
	if stream, consumer := bus.Announcements().Names(); bell["stream"] != stream || bell["consumer"] != consumer {
		t.Errorf("it looks at stream %s and consumer %s, want %s and %s", bell["stream"], bell["consumer"], stream, consumer)
	}
	url := pgtest.New(t)
	super, role := pgtest.Pool(t, url), pgtest.Pool(t, pgtest.RoleURL(t, url, rows["userName"]))
	if _, err := super.Exec(t.Context(), `
insert into inbox (source, event_key, body_hash, next_attempt_at)
select 'answers', 'k' || n, '', now() + case when n <= 30 then interval '-1 s' else interval '1 h' end from generate_series(1, 50) n`); err != nil {
		t.Fatal(err)
	}
	var due float64
	if err := role.QueryRow(t.Context(), rows["query"]).Scan(&due); err != nil || due != 30 {
		t.Errorf("the query finds %v rows due, %v; want 30", due, err)
	}
}

// TestRulesAndDashboardsAreTheOnesOfTheFolders holds what the chart makes to the
// files that docker compose mounts.
func TestRulesAndDashboardsAreTheOnesOfTheFolders(t *testing.T) {
	m := render(t, "{}")
	rules, err := filepath.Glob(filepath.Join(root, "deploy", "prometheus", "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range rules {
		rule := named[*monitoring.PrometheusRule](t, m, release+"-"+strings.TrimSuffix(filepath.Base(file), ".yml"))
		var want monitoring.PrometheusRuleSpec
		readYAML(t, &want, "deploy", "prometheus", filepath.Base(file))
		if len(rule.Spec.Groups) == 0 || len(rule.Spec.Groups) != len(want.Groups) {
			t.Errorf("%s has %d groups, its rule has %d", file, len(want.Groups), len(rule.Spec.Groups))
		}
	}
	if got := len(all[*monitoring.PrometheusRule](m)); got != len(rules) {
		t.Errorf("%d rules of %d files", got, len(rules))
	}
	dashboards, err := filepath.Glob(filepath.Join(root, "deploy", "grafana", "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(dashboards) == 0 {
		return
	}
	data := named[*core.ConfigMap](t, m, release+"-dashboards").Data
	if len(data) != len(dashboards) {
		t.Errorf("%d dashboards of %d files", len(data), len(dashboards))
	}
}
