package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// runSetup runs what the one-shot setup does, in a folder instead of the volume,
// and with other sources.
func runSetup(t *testing.T, project *types.Project, volume, sources string) {
	t.Helper()
	setup := project.Services["setup"]
	script := strings.ReplaceAll(setup.Command[0], "/etc/catchwater", volume)
	args := append(setup.Entrypoint[1:], "chown() { :; }\n"+script) // to the containers' user, which takes root
	cmd := exec.CommandContext(t.Context(), setup.Entrypoint[0], args...)
	cmd.Env = append(os.Environ(), "SOURCES="+sources)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestComposeSetup runs the setup twice: the sources are where the services look for them, each role has
// a password that it can be given, and the second time changes none.
func TestComposeSetup(t *testing.T) {
	t.Parallel()
	project := loadCompose(t, "docker-compose.yml")
	sources := sourcesText(t, project)
	volume := filepath.Join(t.TempDir(), "etc")
	passwords := func() map[string]string {
		t.Helper()
		runSetup(t, project, volume, sources)
		found := make(map[string]string)
		for _, role := range []string{"owner", "catchwater_ingress", "catchwater_processor", "catchwater_reconciler"} {
			file := filepath.Join(volume, "passwords", role)
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s may be read by others: %s", role, info.Mode())
			}
			password, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(password) < 24 || strings.ContainsFunc(string(password), func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("the password of %s is %d bytes, or not printable", role, len(password))
			}
			for other, same := range found {
				if same == string(password) {
					t.Errorf("%s and %s have the same password", role, other)
				}
			}
			found[role] = string(password)
		}
		return found
	}
	first := passwords()
	for role, password := range passwords() {
		if first[role] != password {
			t.Errorf("the second time gives %s another password", role)
		}
	}
	written, err := os.ReadFile(filepath.Join(volume, "catchwater.yaml"))
	if err != nil || string(written) != sources {
		t.Errorf("the sources are not written as they are given: %v", err)
	}
}
