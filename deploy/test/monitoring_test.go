package test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func portText[T ~uint32 | ~int32 | ~int](port T) string { return fmt.Sprint(port) }

// readYAML decodes a file strictly.
func readYAML(t *testing.T, into any, elements ...string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(elements...), err)
	}
}

// TestPrometheusScrapesWhatThereIs holds the names and ports that Prometheus asks
// to the services of docker-compose.yml.
func TestPrometheusScrapesWhatThereIs(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml")
	_, secrets, tokens := sourcesOf(t, project)
	var config struct {
		Global        map[string]string `json:"global"`
		RuleFiles     []string          `json:"rule_files"`
		ScrapeConfigs []struct {
			JobName      string `json:"job_name"`
			DNSSDConfigs []struct {
				Names           []string `json:"names"`
				Type            string   `json:"type"`
				Port            int      `json:"port"`
				RefreshInterval string   `json:"refresh_interval"`
			} `json:"dns_sd_configs"`
		} `json:"scrape_configs"`
	}
	readYAML(t, &config, "deploy", "compose", "prometheus.yml")
	scraped := make(map[string]bool)
	for _, scrape := range config.ScrapeConfigs {
		for _, discovery := range scrape.DNSSDConfigs {
			for _, name := range discovery.Names {
				service, ok := project.Services[name]
				if !ok || name != scrape.JobName {
					t.Errorf("job %s scrapes %s", scrape.JobName, name)
					continue
				}
				listens := configure(t, name, environmentOf(service), append(secrets, tokens...))
				if port := listens.healthPort(t); port != portText(discovery.Port) {
					t.Errorf("%s is scraped on %d and listens on %s", name, discovery.Port, port)
				}
				scraped[name] = true
			}
		}
	}
	for _, service := range []string{"ingress", "processor", "reconciler", "simulator"} {
		if !scraped[service] {
			t.Errorf("nobody scrapes %s", service)
		}
	}
	for _, files := range config.RuleFiles {
		if !strings.HasPrefix(files, "/etc/prometheus/rules/") {
			t.Errorf("rules are read from %s, where none are mounted", files)
		}
	}
}

// TestGrafanaIsProvisioned holds Grafana's sources of data and its folder of
// dashboards to docker-compose.yml.
func TestGrafanaIsProvisioned(t *testing.T) {
	project := loadCompose(t, "docker-compose.yml")
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool
		} `json:"datasources"`
	}
	readYAML(t, &sources, "deploy", "grafana", "provisioning", "datasources", "catchwater.yml")
	ports := map[string]string{"prometheus": "9090", "jaeger": "16686"}
	for _, source := range sources.Datasources {
		u, err := url.Parse(source.URL)
		if err != nil || u.Hostname() != source.UID || u.Port() != ports[u.Hostname()] {
			t.Errorf("%s is asked at %s", source.Name, source.URL)
		}
		if _, ok := project.Services[u.Hostname()]; !ok {
			t.Errorf("%s: there is no service %s", source.Name, u.Hostname())
		}
	}
	var folders struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Folder, Type string
			Options            struct{ Path string }
		} `json:"providers"`
	}
	readYAML(t, &folders, "deploy", "grafana", "provisioning", "dashboards", "catchwater.yml")
	for _, provider := range folders.Providers {
		assertMounted(t, project.Services["grafana"], provider.Name, provider.Options.Path+"/")
	}
}
