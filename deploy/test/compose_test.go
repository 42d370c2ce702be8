package test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/catchwater/catchwater/pkg/source"
)

// loadCompose reads compose files as `docker compose` does, all profiles on and
// with nothing from this machine's environment.
func loadCompose(t *testing.T, files ...string) *types.Project {
	t.Helper()
	for n := range files {
		files[n] = filepath.Join(root, files[n])
	}
	options, err := cli.NewProjectOptions(files, cli.WithProfiles([]string{"*"}), cli.WithInterpolation(true), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestUpAloneRunsTheDemonstration reads what `docker compose up` reads, typed in
// the repository with nothing in the environment.
func TestUpAloneRunsTheDemonstration(t *testing.T) {
	options, err := cli.NewProjectOptions(nil, cli.WithWorkingDirectory(root), cli.WithEnvFiles(), cli.WithDotEnv,
		cli.WithDefaultConfigPath, cli.WithDefaultProfiles())
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]bool{"ingress": true, "processor": true, "reconciler": true, "simulator": true, "catchwater": false} {
		if _, runs := project.Services[service]; runs != want {
			t.Errorf("%s runs: %v, want %v", service, runs, want)
		}
	}
}

// sourcesText returns the sources file that a project's setup writes. It stands in
// the environment, which is part of what compose makes a container anew for, in
// every version; the content of a config is not.
func sourcesText(t *testing.T, project *types.Project) string {
	t.Helper()
	setup := project.Services["setup"]
	text := environmentOf(setup)["SOURCES"]
	if text == "" || len(setup.Configs) > 0 {
		t.Fatalf("setup has its sources from elsewhere than its environment: %q, %v", text, setup.Configs)
	}
	return text
}

// sourcesOf returns the sources of a project, and the environment variables that
// their secrets and their providers' keys stand in.
func sourcesOf(t *testing.T, project *types.Project) (sources *source.Config, secrets, tokens []string) {
	t.Helper()
	sources, err := source.Parse("catchwater.yaml", []byte(sourcesText(t, project)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources.Sources {
		for _, secret := range s.Secrets {
			secrets = append(secrets, secret.Env)
		}
		if s.Reconcile != nil {
			tokens = append(tokens, s.Reconcile.Token.Env)
		}
	}
	return sources, secrets, tokens
}

// environmentOf returns a service's variables and their values.
func environmentOf(service types.ServiceConfig) map[string]string {
	environment := make(map[string]string)
	for name, value := range service.Environment {
		if value != nil {
			environment[name] = *value
		}
	}
	return environment
}

// programOf returns which of our programs a service runs, or "".
func programOf(service types.ServiceConfig) string {
	if service.Build == nil {
		return ""
	}
	return service.Build.Target
}

func TestComposeSettings(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml")
	_, secrets, tokens := sourcesOf(t, project)
	ran := make(map[string]bool)
	for name, service := range project.Services {
		program := programOf(service)
		if program == "" {
			continue
		}
		ran[program] = true
		environment := environmentOf(service)
		listens := configure(t, program, environment, append(secrets, tokens...))
		var ports []string
		if listens != nil {
			ports = listens.ports(t)
			if check := service.HealthCheck; check == nil || !slices.Equal(check.Test, []string{"CMD", "/" + program, "--check"}) {
				t.Errorf("%s: its health check asks something else than /%s --check", name, program)
			}
		}
		for _, port := range service.Ports {
			if !slices.Contains(ports, portText(port.Target)) {
				t.Errorf("%s publishes port %d, on which it does not listen (%v)", name, port.Target, ports)
			}
		}
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) {
			t.Errorf("%s may write to its file system, or has capabilities", name)
		}
		for variable, value := range environment {
			if strings.HasPrefix(value, "/") {
				assertMounted(t, service, variable, value)
			}
		}
		if u, err := url.Parse(environment["DATABASE_URL"]); err != nil || program != "simulator" && (u.Host != "postgres:5432" || strings.Contains(u.User.String(), ":")) {
			t.Errorf("%s: DATABASE_URL is %q: it leads elsewhere, or shows a password", name, environment["DATABASE_URL"])
		}
		if traces := environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; environment["NATS_URL"] != "" && traces != "http://jaeger:4318" {
			t.Errorf("%s sends its traces to %q", name, traces)
		}
		for _, needed := range map[string][]string{"ingress": secrets, "reconciler": tokens}[program] {
			if environment[needed] == "" {
				t.Errorf("%s: %s is not set, which a source names", name, needed)
			}
		}
	}
	for _, program := range programs {
		if !ran[program] {
			t.Errorf("nothing runs %s", program)
		}
	}
}

// TestComposeDeliversToItself holds the names and ports that services know each
// other by to what is there.
func TestComposeDeliversToItself(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml")
	sources, _, _ := sourcesOf(t, project)
	simulator, ingress := environmentOf(project.Services["simulator"]), environmentOf(project.Services["ingress"])
	for _, provider := range []string{"SIMULATOR_", "SIMULATOR_KOLTRIX_"} {
		hook, err := url.Parse(simulator[provider+"WEBHOOK_URL"])
		if err != nil {
			t.Fatal(err)
		}
		delivered := sources.Lookup(strings.TrimPrefix(hook.Path, "/hooks/"))
		if delivered == nil || hook.Hostname() != "ingress" || hook.Port() != portText(project.Services["ingress"].Ports[0].Target) {
			t.Fatalf("the simulator delivers to %s, where no source is", hook)
		}
		if secret := ingress[delivered.Secrets[0].Env]; secret == "" || secret != simulator[provider+"WEBHOOK_SECRET"] {
			t.Errorf("the simulator signs for %s with another secret than the ingress has", delivered.Name)
		}
		api, err := url.Parse(delivered.Reconcile.BaseURL)
		if err != nil || api.Hostname() != "simulator" || api.Port() != portText(project.Services["simulator"].Ports[0].Target) {
			t.Errorf("the provider of %s is asked at %s, which is not the simulator", delivered.Name, delivered.Reconcile.BaseURL)
		}
		if environmentOf(project.Services["reconciler"])[delivered.Reconcile.Token.Env] != simulator[provider+"API_KEY"] {
			t.Errorf("the reconciler asks for %s with another key than the simulator's", delivered.Name)
		}
	}
}

func TestComposeIsPinnedAndOnLoopback(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml")
	version := regexp.MustCompile(`:v?[0-9]+\.[0-9]+`)
	for name, service := range project.Services {
		if programOf(service) == "" && !version.MatchString(service.Image) {
			t.Errorf("%s: %s has no version", name, service.Image)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %d is bound to %q, not to loopback", name, port.Target, port.HostIP)
			}
		}
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
		}
	}
	for service, volume := range map[string]string{"postgres": "postgres", "nats": "nats", "prometheus": "prometheus", "grafana": "grafana"} {
		if !slices.ContainsFunc(project.Services[service].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == volume }) {
			t.Errorf("%s keeps nothing in volume %s", service, volume)
		}
	}
}

// TestComposeOrder follows who waits for whom: nothing of ours starts before the
// schema is there.
func TestComposeOrder(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml")
	assertWaits := func(service, other, condition string) {
		t.Helper()
		if got := project.Services[service].DependsOn[other].Condition; got != condition {
			t.Errorf("%s waits for %s: %q, want %s", service, other, got, condition)
		}
	}
	assertWaits("postgres", "setup", types.ServiceConditionCompletedSuccessfully)
	assertWaits("migrate", "postgres", types.ServiceConditionHealthy)
	for _, service := range []string{"ingress", "processor", "reconciler"} {
		assertWaits(service, "setup", types.ServiceConditionCompletedSuccessfully)
		assertWaits(service, "migrate", types.ServiceConditionCompletedSuccessfully)
		assertWaits(service, "nats", types.ServiceConditionHealthy)
	}
	assertWaits("simulator", "ingress", types.ServiceConditionHealthy)
	for service, profiles := range map[string][]string{"simulator": {"demo"}, "catchwater": {"tools"}, "ingress": nil, "migrate": nil} {
		if got := project.Services[service].Profiles; !slices.Equal(got, profiles) {
			t.Errorf("%s has profiles %v, want %v", service, got, profiles)
		}
	}
	for _, service := range []string{"postgres", "nats", "prometheus", "grafana"} {
		if check := project.Services[service].HealthCheck; check == nil || len(check.Test) == 0 {
			t.Errorf("%s has no health check", service)
		}
	}
}

// TestComposeWithASourceOfOnesOwn holds the example of an override to what it
// says: one file, with the source, and its secret for whoever may use it.
func TestComposeWithASourceOfOnesOwn(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml", "deploy/compose/override.example.yml")
	sources, secrets, _ := sourcesOf(t, project)
	if len(sources.Sources) != 1 || sources.Lookup("payments") == nil {
		t.Errorf("the override's sources are not those that are used: %v", sources.Sources)
	}
	for _, service := range []string{"ingress", "processor", "reconciler", "catchwater"} {
		environment := environmentOf(project.Services[service])
		configure(t, service, environment, append(secrets, "ANSWERLINE_SECRET", "ANSWERLINE_API_KEY", "KOLTRIX_SECRET", "KOLTRIX_API_KEY"))
		for _, secret := range secrets {
			if len(environment[secret]) < source.MinSecret {
				t.Errorf("%s: %s is not set, or too short to be taken", service, secret)
			}
		}
	}
}

// assertMounted fails when a path that a variable names is in none of a
// service's volumes.
func assertMounted(t *testing.T, service types.ServiceConfig, variable, path string) {
	t.Helper()
	for _, volume := range service.Volumes {
		if strings.HasPrefix(path, volume.Target+"/") {
			return
		}
	}
	t.Errorf("%s: %s names %s, which is in no volume", service.Name, variable, path)
}
