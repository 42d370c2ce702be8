package test

import (
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"

	"github.com/catchwater/catchwater/pkg/source"
	"github.com/catchwater/catchwater/services/ingress"
	"github.com/catchwater/catchwater/services/processor"

	"github.com/alecthomas/kong"
)

// checkPods holds every pod to the program that it runs, to the restricted
// profile, and to secrets that are files.
func checkPods(t *testing.T, m manifests) {
	t.Helper()
	pods := make(map[string]core.PodSpec)
	for _, d := range all[*apps.Deployment](m) {
		pods[d.Name] = d.Spec.Template.Spec
	}
	for _, j := range all[*batch.Job](m) {
		pods[j.Name] = j.Spec.Template.Spec
	}
	if len(pods) != 4 {
		t.Errorf("there are %d workloads, want the three services and the migration", len(pods))
	}
	for name, pod := range pods {
		t.Run(name, func(t *testing.T) {
			if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
				t.Fatalf("it has %d containers", len(pod.Containers))
			}
			checkRestricted(t, pod)
			checkContainer(t, pod, pod.Containers[0])
		})
	}
}

// checkRestricted follows the Pod Security Standards' restricted profile, and
// asks for a file system that cannot be written to.
func checkRestricted(t *testing.T, pod core.PodSpec) {
	t.Helper()
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	s := pod.SecurityContext
	if s == nil || !is(s.RunAsNonRoot, true) || s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || *s.RunAsUser == 0 {
		t.Errorf("the pod is not restricted: %+v", s)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC || !is(pod.AutomountServiceAccountToken, false) {
		t.Error("the pod has something of the host's, or a token that it does not need")
	}
	c := pod.Containers[0].SecurityContext
	if c == nil || !is(c.AllowPrivilegeEscalation, false) || !is(c.ReadOnlyRootFilesystem, true) || c.Capabilities == nil ||
		!slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
		t.Errorf("the container is not restricted: %+v", c)
	}
	for _, volume := range pod.Volumes {
		if volume.ConfigMap == nil && volume.Secret == nil {
			t.Errorf("volume %s is neither a ConfigMap nor a Secret", volume.Name)
		}
	}
}

// checkContainer holds a container's variables, paths and ports to its program.
func checkContainer(t *testing.T, pod core.PodSpec, c core.Container) {
	t.Helper()
	program, _, _ := strings.Cut(path.Base(c.Image), ":")
	environment := make(map[string]string)
	for _, variable := range c.Env {
		if variable.ValueFrom != nil {
			t.Errorf("%s comes from elsewhere: a changed one would want a restart", variable.Name)
		}
		if _, twice := environment[variable.Name]; twice {
			t.Errorf("%s is there twice", variable.Name)
		}
		environment[variable.Name] = variable.Value
		if strings.HasPrefix(variable.Value, "/") {
			checkPath(t, pod, c, variable.Name, variable.Value)
		}
	}
	database, err := url.Parse(environment["DATABASE_URL"])
	if err != nil || strings.Contains(database.User.String(), ":") {
		t.Errorf("DATABASE_URL is none, or shows a password: %v", err)
	} else if root := database.Query().Get("sslrootcert"); root != "" {
		checkPath(t, pod, c, "sslrootcert", root)
	}
	listens := configure(t, program, environment, nil)
	if listens == nil {
		return
	}
	want := listens.ports(t)
	var ports []string
	for _, port := range c.Ports {
		ports = append(ports, portText(port.ContainerPort))
		if port.Name == "health" && portText(port.ContainerPort) != listens.healthPort(t) {
			t.Errorf("port health is %d, and the program's is %s", port.ContainerPort, listens.healthPort(t))
		}
	}
	if slices.Sort(ports); !slices.Equal(ports, want) {
		t.Errorf("it has ports %v, and the program listens on %v", ports, want)
	}
	for what, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != what || probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("nobody asks %s: %+v", what, probe)
		}
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Error("it does not say what it needs")
	}
}

// checkPath fails for a path that no volume of the container has.
func checkPath(t *testing.T, pod core.PodSpec, c core.Container, variable, file string) {
	t.Helper()
	for _, mount := range c.VolumeMounts {
		rest, ok := strings.CutPrefix(file+"/", mount.MountPath+"/")
		if !ok {
			continue
		}
		if !mount.ReadOnly {
			t.Errorf("%s can be written to", mount.MountPath)
		}
		n := slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == mount.Name })
		if n < 0 {
			t.Errorf("there is no volume %s", mount.Name)
			return
		}
		key := strings.TrimSuffix(rest, "/")
		secret := pod.Volumes[n].Secret
		if key == "" || secret == nil || len(secret.Items) == 0 {
			return // the whole of it
		}
		if !slices.ContainsFunc(secret.Items, func(i core.KeyToPath) bool { return i.Path == key }) {
			t.Errorf("%s names %s, which volume %s does not have", variable, file, mount.Name)
		}
		return
	}
	t.Errorf("%s names %s, where nothing is mounted", variable, file)
}

// TestSourcesOfTheChart holds the chart's sources to the services' own reading of
// them, and their secrets to where the chart mounts them.
func TestSourcesOfTheChart(t *testing.T) {
	m := render(t, `
sources:
  answers:
    preset: answerline
    secrets: [{file: /etc/catchwater/secrets/answers}]
    reconcile: {base_url: https://api.example.org, token: {file: /etc/catchwater/secrets/answers-api}}
  code: {preset: github, secrets: [{file: /etc/catchwater/secrets/code}]}
`)
	text := named[*core.ConfigMap](t, m, release+"-sources").Data["catchwater.yaml"]
	sources, err := source.Parse("catchwater.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(sources.Sources) != 2 || sources.Lookup("answers").Reconcile == nil {
		t.Errorf("the sources are not those of the values:\n%s", text)
	}
	pod := named[*apps.Deployment](t, m, release+"-ingress").Spec.Template.Spec
	for _, s := range sources.Sources {
		for _, secret := range s.Secrets {
			checkPath(t, pod, pod.Containers[0], s.Name, secret.File)
		}
	}
}

// TestGracePeriods holds the time that pods have to stop to what the programs
// may take, by their own defaults.
func TestGracePeriods(t *testing.T) {
	m := render(t, "{ingress: {preStop: 12}}")
	var in ingress.Config
	var pr processor.Config
	for _, config := range []any{&in, &pr} {
		parser, err := kong.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(nil); err != nil {
			t.Fatal(err)
		}
	}
	pod := named[*apps.Deployment](t, m, release+"-ingress").Spec.Template.Spec
	preStop := pod.Containers[0].Lifecycle.PreStop.Sleep
	if preStop == nil || preStop.Seconds != 12 {
		t.Errorf("before SIGTERM it sleeps %v", preStop)
	}
	const announce, spare = 2 * time.Second, 5 * time.Second
	for name, needed := range map[string]time.Duration{
		"ingress":    12*time.Second + in.DrainDelay + in.DrainTimeout + announce + spare,
		"processor":  pr.BatchTimeout + spare,
		"reconciler": 15*time.Second + spare, // its polls under way, and a statement
	} {
		spec := named[*apps.Deployment](t, m, release+"-"+name).Spec.Template.Spec
		if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace < needed {
			t.Errorf("%s has %s to stop, and may need %s", name, grace, needed)
		}
	}
}

// TestGracePeriodsFollowSettings has grace periods grow with what is set, and
// those that are given refused when they are too short.
func TestGracePeriodsFollowSettings(t *testing.T) {
	const effects = "sources: {answers: {preset: answerline, effects: [{name: a, timeout: 4m30s}, {name: b, timeout: 1500ms}, {name: c}]}, code: {preset: github}}\n"
	for _, c := range []struct {
		values, name string
		least        int64 // seconds; 0: refused
	}{
		{"{ingress: {env: {CATCHWATER_DRAIN_TIMEOUT: 1m30s, CATCHWATER_DRAIN_DELAY: 5s}}}", "ingress", 10 + 90 + 5 + 2 + 5},
		{"{ingress: {grace: 60}}", "ingress", 60},
		{"{ingress: {grace: 30}}", "ingress", 0},
		{"{ingress: {grace: 60, env: {CATCHWATER_DRAIN_TIMEOUT: 60s}}}", "ingress", 0},
		{"{ingress: {env: {CATCHWATER_DRAIN_TIMEOUT: soon}}}", "ingress", 0},
		{effects, "processor", 270 + 5},
		{effects + "processor: {grace: 60}", "processor", 0},
		{effects + "processor: {grace: 400}", "processor", 400},
		{"{processor: {env: {CATCHWATER_BATCH_TIMEOUT: 28s}}}", "processor", 28 + 5},
		{"{reconciler: {grace: 10}}", "reconciler", 0},
	} {
		if c.least == 0 {
			if _, err := renderText(t, loadChart(t), c.values); err == nil || !strings.Contains(err.Error(), c.name) {
				t.Errorf("%s: %v, want an error about %s", c.values, err, c.name)
			}
			continue
		}
		pod := named[*apps.Deployment](t, render(t, c.values), release+"-"+c.name).Spec.Template.Spec
		if grace := *pod.TerminationGracePeriodSeconds; grace < c.least {
			t.Errorf("%s: %s has %d s to stop, want %d or more", c.values, c.name, grace, c.least)
		}
	}
}

// TestTheMigrationIsAJobOfItsOwn has a raised number of passwords, and whatever
// its pods are made of, make another Job, since one cannot be changed: not by
// another version of the chart either.
func TestTheMigrationIsAJobOfItsOwn(t *testing.T) {
	templates := make(map[string]core.PodTemplateSpec)
	job := func(m manifests) string {
		jobs := all[*batch.Job](m)
		if len(jobs) != 1 {
			t.Fatalf("there are %d jobs", len(jobs))
		}
		name, template := jobs[0].Name, jobs[0].Spec.Template
		if former, ok := templates[name]; ok && !reflect.DeepEqual(former, template) {
			t.Errorf("two Jobs are called %s and are not the same", name)
		}
		templates[name] = template
		return name
	}
	first := job(render(t, "{}"))
	for _, values := range []string{
		"{image: {tag: 2.0.0}}", "{image: {pullSecrets: [{name: registry}]}}", "{database: {passwords: 2}}", "{database: {host: elsewhere}}",
	} {
		if job(render(t, values)) == first {
			t.Errorf("%s makes no other Job", values)
		}
	}
	if job(render(t, "{ingress: {maxReplicas: 20}}")) != first {
		t.Error("a change that is none of the migration's makes another Job")
	}
	next := *loadChart(t)
	metadata := *next.Metadata
	metadata.Version = "99.0.0"
	next.Metadata = &metadata
	job(renderChart(t, &next, "{}"))
}
