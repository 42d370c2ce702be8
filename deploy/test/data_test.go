package test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	prometheus "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	networking "k8s.io/api/networking/v1"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The kinds of CloudNativePG and its Barman plugin, as far as the manifests here
// use them, after the projects' API references: their Go types cannot be had
// without the operators themselves. A field that is not here fails to decode.
type (
	cluster struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            clusterSpec `json:"spec"`
	}
	clusterSpec struct {
		Instances             int    `json:"instances"`
		ImageName             string `json:"imageName"`
		PrimaryUpdateStrategy string `json:"primaryUpdateStrategy"`
		PrimaryUpdateMethod   string `json:"primaryUpdateMethod"`
		Bootstrap             struct {
			InitDB struct {
				Database      string `json:"database"`
				Owner         string `json:"owner"`
				DataChecksums bool   `json:"dataChecksums"`
				Encoding      string `json:"encoding"`
				LocaleCollate string `json:"localeCollate"`
				LocaleCType   string `json:"localeCType"`
			} `json:"initdb"`
		} `json:"bootstrap"`
		Managed struct {
			Roles []struct {
				Name       string `json:"name"`
				Ensure     string `json:"ensure"`
				Login      bool   `json:"login"`
				CreateRole bool   `json:"createrole"`
			} `json:"roles"`
		} `json:"managed"`
		PostgreSQL struct {
			Synchronous struct {
				Method         string `json:"method"`
				Number         int    `json:"number"`
				DataDurability string `json:"dataDurability"`
			} `json:"synchronous"`
			Parameters map[string]string `json:"parameters"`
		} `json:"postgresql"`
		Storage    volume                    `json:"storage"`
		WALStorage volume                    `json:"walStorage"`
		Resources  core.ResourceRequirements `json:"resources"`
		Affinity   struct {
			EnablePodAntiAffinity bool   `json:"enablePodAntiAffinity"`
			TopologyKey           string `json:"topologyKey"`
			PodAntiAffinityType   string `json:"podAntiAffinityType"`
		} `json:"affinity"`
		TopologySpreadConstraints []core.TopologySpreadConstraint `json:"topologySpreadConstraints"`
		Plugins                   []struct {
			Name          string            `json:"name"`
			IsWALArchiver bool              `json:"isWALArchiver"`
			Parameters    map[string]string `json:"parameters"`
		} `json:"plugins"`
	}
	volume struct {
		Size string `json:"size"`
	}
	scheduledBackup struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			Schedule             string `json:"schedule"`
			BackupOwnerReference string `json:"backupOwnerReference"`
			Cluster              struct {
				Name string `json:"name"`
			} `json:"cluster"`
			Method              string `json:"method"`
			PluginConfiguration struct {
				Name string `json:"name"`
			} `json:"pluginConfiguration"`
		} `json:"spec"`
	}
	objectStore struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
		Spec            struct {
			RetentionPolicy string `json:"retentionPolicy"`
			Configuration   struct {
				DestinationPath string `json:"destinationPath"`
				S3Credentials   struct {
					AccessKeyID     core.SecretKeySelector `json:"accessKeyId"`
					SecretAccessKey core.SecretKeySelector `json:"secretAccessKey"`
				} `json:"s3Credentials"`
				WAL  struct{ Compression string } `json:"wal"`
				Data struct{ Compression string } `json:"data"`
			} `json:"configuration"`
		} `json:"spec"`
	}
)

func readManifests(t *testing.T, elements ...string) manifests {
	t.Helper()
	file := filepath.Join(append([]string{root, "deploy"}, elements...)...)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return manifests{objects: decode(t, file, data)}
}

// TestPostgresLosesNothing holds the cluster to what the chart expects of it, and
// to commits that another server has too.
func TestPostgresLosesNothing(t *testing.T) {
	c := named[*cluster](t, readManifests(t, "postgres", "cluster.yaml"), "catchwater-postgres")
	s := c.Spec.PostgreSQL.Synchronous
	if s.Method != "any" || s.Number < 1 || s.DataDurability != "required" || c.Spec.Instances <= s.Number+1 {
		t.Errorf("an acknowledged row may be lost, or one lost server stops all: %d instances, %+v", c.Spec.Instances, s)
	}
	values := loadChart(t).Values
	database := values["database"].(map[string]any)
	owner := database["owner"].(map[string]any)
	init := c.Spec.Bootstrap.InitDB
	if init.Database != database["name"] || init.Owner != owner["user"] || database["host"] != c.Name+"-rw" ||
		owner["secret"] != c.Name+"-app" || database["caSecret"] != c.Name+"-ca" {
		t.Errorf("the chart expects another database: %v", database)
	}
	if roles := c.Spec.Managed.Roles; len(roles) != 1 || roles[0].Name != init.Owner || !roles[0].CreateRole || !roles[0].Login {
		t.Errorf("the owner cannot make the services' roles: %+v", roles)
	}
	backup := readManifests(t, "postgres", "backup.yaml")
	scheduled, store := all[*scheduledBackup](backup)[0], all[*objectStore](backup)[0]
	if scheduled.Spec.Cluster.Name != c.Name || scheduled.Spec.PluginConfiguration.Name != c.Spec.Plugins[0].Name ||
		c.Spec.Plugins[0].Parameters["barmanObjectName"] != store.Name {
		t.Error("backups are of another cluster, or go elsewhere")
	}
}

// TestPostgresIsWatched holds what Prometheus scrapes to the cluster's pods, and
// the rules to names of the cluster's.
func TestPostgresIsWatched(t *testing.T) {
	c := named[*cluster](t, readManifests(t, "postgres", "cluster.yaml"), "catchwater-postgres")
	watched := readManifests(t, "postgres", "monitoring.yaml")
	scraped := named[*prometheus.PodMonitor](t, watched, c.Name)
	if !selects(t, &scraped.Spec.Selector, map[string]string{"cnpg.io/cluster": c.Name}) || *scraped.Spec.PodMetricsEndpoints[0].Port != "metrics" {
		t.Errorf("the servers are not scraped: %+v", scraped.Spec)
	}
	rules := named[*prometheus.PrometheusRule](t, watched, c.Name)
	for _, rule := range rules.Spec.Groups[0].Rules {
		if !strings.Contains(rule.Expr.String(), c.Name+"-[0-9]+") {
			t.Errorf("%s looks at other servers as well: %s", rule.Alert, rule.Expr.String())
		}
		if rule.Alert == "CatchwaterPostgresReplicasMissing" && !strings.HasSuffix(rule.Expr.String(), fmt.Sprintf("< %d", c.Spec.Instances-1)) {
			t.Errorf("there are %d servers, and %s", c.Spec.Instances, rule.Expr.String())
		}
	}
}

// TestNATSIsAClusterOfThree holds the values for NATS' chart to what the services
// are told.
func TestNATSIsAClusterOfThree(t *testing.T) {
	var nats struct {
		Config struct {
			Cluster struct {
				Enabled  bool
				Replicas int
			}
			JetStream struct {
				Enabled     bool
				MemoryStore struct{ Enabled bool }
				FileStore   struct {
					Enabled bool
					PVC     struct {
						Enabled bool
						Size    string
					}
				}
			} `json:"jetstream"`
			Monitor struct {
				Enabled bool
				Port    int
			}
		}
		Container struct {
			Image struct{ Tag string }
			Merge core.Container
		}
		PodTemplate struct {
			TopologySpreadConstraints map[string]core.TopologySpreadConstraint
			Merge                     core.PodTemplateSpec
		} `json:"podTemplate"`
		PromExporter struct {
			Enabled    bool
			PodMonitor struct {
				Enabled bool
				Merge   prometheus.PodMonitor
			} `json:"podMonitor"`
			Merge core.Container
		} `json:"promExporter"`
		Reloader            struct{ Merge core.Container }
		NATSBox             struct{ Enabled bool } `json:"natsBox"`
		PodDisruptionBudget struct{ Enabled bool } `json:"podDisruptionBudget"`
	}
	readYAML(t, &nats, "deploy", "nats", "values.yaml")
	chart := loadChart(t).Values["nats"].(map[string]any)
	if c := nats.Config.Cluster; !c.Enabled || c.Replicas != 3 || chart["replicas"] != float64(c.Replicas) {
		t.Errorf("there are %+v servers, and streams are kept by %v", c, chart["replicas"])
	}
	if j := nats.Config.JetStream; !j.Enabled || !j.FileStore.Enabled || !j.FileStore.PVC.Enabled || j.MemoryStore.Enabled {
		t.Errorf("JetStream is not on disk: %+v", j)
	}
	for _, container := range []core.Container{nats.Container.Merge, nats.Reloader.Merge, nats.PromExporter.Merge} {
		if c := container.SecurityContext; c == nil || c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || !slices.Equal(c.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("a container of NATS is not restricted: %+v", c)
		}
	}
	project := loadCompose(t, "docker-compose.yml")
	if image := project.Services["nats"].Image; image != "nats:"+nats.Container.Image.Tag {
		t.Errorf("NATS is another one than under docker compose: %s and %s", nats.Container.Image.Tag, image)
	}
}

// TestNetworkPoliciesOfTheData holds who may reach Postgres and NATS to the
// labels of the chart's pods.
func TestNetworkPoliciesOfTheData(t *testing.T) {
	for folder, port := range map[string]string{"postgres": "5432", "nats": "4222"} {
		policies := all[*networking.NetworkPolicy](readManifests(t, folder, "networkpolicy.yaml"))
		if len(policies) != 1 {
			t.Fatalf("%s has %d policies", folder, len(policies))
		}
		if !slices.ContainsFunc(policies[0].Spec.Ingress, func(rule networking.NetworkPolicyIngressRule) bool {
			return slices.ContainsFunc(rule.Ports, func(p networking.NetworkPolicyPort) bool { return p.Port.String() == port }) &&
				slices.ContainsFunc(rule.From, func(peer networking.NetworkPolicyPeer) bool {
					return peer.PodSelector != nil && selects(t, peer.PodSelector, map[string]string{"app.kubernetes.io/name": "catchwater"})
				})
		}) {
			t.Errorf("the services are kept from %s", folder)
		}
	}
}
