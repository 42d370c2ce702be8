//go:build apiserver

package test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/catchwater/catchwater/pkg/pgserver"
)

// plurals are how the API calls the kinds that a bare API server, and KEDA's
// definitions, know. The other kinds are CloudNativePG's and Prometheus'
// operators', whose definitions are not at hand; TestEveryTemplateRenders decodes
// those strictly.
var plurals = map[string]string{
	"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "Service": "services", "Deployment": "deployments", "Job": "jobs",
	"HorizontalPodAutoscaler": "horizontalpodautoscalers", "PodDisruptionBudget": "poddisruptionbudgets",
	"NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "ScaledObject": "scaledobjects", "TriggerAuthentication": "triggerauthentications",
}

// TestServerSideDryRun applies the chart, and the network policies of the data, to
// a real API server without storing anything: it validates every field, defaults
// and all, and would warn of pods that the restricted profile refuses.
func TestServerSideDryRun(t *testing.T) {
	server := startAPIServer(t)
	server.apply(t, "/api/v1/namespaces/"+release, false, mustYAML(t, core.Namespace{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: meta.ObjectMeta{Name: release, Labels: map[string]string{
			"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
		}},
	}))
	for _, kind := range []string{"scaledobjects", "triggerauthentications"} {
		definition, err := os.ReadFile(filepath.Join(moduleDir(t, "github.com/kedacore/keda/v2"), "config", "crd", "bases", "keda.sh_"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		server.apply(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+kind+".keda.sh", false, definition)
		server.await(t, "/apis/keda.sh/v1alpha1/namespaces/"+release+"/"+kind)
	}
	values := `
ingress: {route: {enabled: true, className: nginx, host: hooks.example.org, tlsSecret: hooks-tls}}
nats: {credentialsSecret: catchwater-nats}
`
	documents := make(map[string][]byte)
	rendered, err := renderText(t, loadChart(t), values)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range rendered {
		if strings.HasSuffix(name, ".yaml") {
			documents[name] = []byte(text)
		}
	}
	for _, folder := range []string{"postgres", "nats"} {
		data, err := os.ReadFile(filepath.Join(root, "deploy", folder, "networkpolicy.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		documents[folder] = data
	}
	applied := make(map[string]int)
	for name, text := range documents {
		for _, document := range strings.Split("\n"+string(text), "\n---\n") {
			var o struct {
				meta.TypeMeta   `json:",inline"`
				meta.ObjectMeta `json:"metadata"`
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			plural, ok := plurals[o.Kind]
			if !ok {
				continue
			}
			group := "/apis/" + o.APIVersion
			if o.APIVersion == "v1" {
				group = "/api/v1"
			}
			server.apply(t, fmt.Sprintf("%s/namespaces/%s/%s/%s", group, release, plural, o.Name), true, []byte(document))
			applied[o.Kind]++
		}
	}
	for kind := range plurals {
		if applied[kind] == 0 {
			t.Errorf("no %s was applied", kind)
		}
	}
}

// apiServer is a real kube-apiserver on a real etcd, with nothing behind it.
type apiServer struct {
	url    string
	token  string
	client *http.Client
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	dir := t.TempDir()
	var ports []int
	for range 3 {
		port, err := pgserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	local := func(scheme string, n int) string { return fmt.Sprintf("%s://127.0.0.1:%d", scheme, ports[n]) }
	runProgram(t, dir, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", local("http", 0), "--advertise-client-urls", local("http", 0),
		"--listen-peer-urls", local("http", 1), "--initial-advertise-peer-urls", local("http", 1), "--initial-cluster", "default="+local("http", 1))
	key := filepath.Join(dir, "key.pem")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)}))
	server := &apiServer{url: local("https", 2), token: rand.Text(), client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, // its certificate is made up at each start
	}}
	tokens := filepath.Join(dir, "tokens")
	write(t, tokens, []byte(server.token+",admin,admin,system:masters\n"))
	runProgram(t, dir, "kube-apiserver", "--etcd-servers", local("http", 0), "--bind-address=127.0.0.1", "--secure-port", fmt.Sprint(ports[2]),
		"--cert-dir", filepath.Join(dir, "certificates"), "--token-auth-file", tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://catchwater.invalid", "--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount")
	server.await(t, "/readyz")
	return server
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runProgram runs one of the programs that the Makefile builds until the test ends.
func runProgram(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "bin", "kubernetes", name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: `make test-apiserver` builds it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("last of the log of %s:\n%s", name, data[max(0, len(data)-4000):])
		}
	})
}

// await returns when a path is answered 200.
func (s *apiServer) await(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; <-time.After(100 * time.Millisecond) {
		status, body, _, err := s.call(t, http.MethodGet, path, nil)
		if err == nil && status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("GET %s: %d %s, %v", path, status, body, err)
		}
	}
}

// apply applies a manifest server-side, strictly; dry, nothing is stored.
func (s *apiServer) apply(t *testing.T, path string, dry bool, manifest []byte) {
	t.Helper()
	path += "?fieldManager=test&fieldValidation=Strict"
	if dry {
		path += "&dryRun=All"
	}
	status, body, warnings, err := s.call(t, http.MethodPatch, path, manifest)
	if err != nil || status != http.StatusOK && status != http.StatusCreated {
		t.Errorf("%s: %d %s, %v", path, status, body, err)
	}
	if len(warnings) > 0 {
		t.Errorf("%s: %v", path, warnings)
	}
}

func (s *apiServer) call(t *testing.T, method, path string, body []byte) (status int, answer string, warnings []string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	response, err := s.client.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), response.Header.Values("Warning"), err
}

func mustYAML(t *testing.T, o any) []byte {
	t.Helper()
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// moduleDir is where a module's source is.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
