package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

// runSetup runs what the one-shot setup does, in a folder instead of the volume.
func runSetup(t *testing.T, project *types.Project, volume, sources string) {
	t.Helper()
	setup := project.Services["setup"]
	file := filepath.Join(t.TempDir(), "sources.yaml")
	if err := os.WriteFile(file, []byte(sources), 0o600); err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("/etc/catchwater", volume, setup.Configs[0].Target, file).Replace(setup.Command[0])
	args := append(setup.Entrypoint[1:], "chown() { :; }\n"+script) // to the containers' user, which takes root
	if out, err := exec.CommandContext(t.Context(), setup.Entrypoint[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestComposeSetup runs the setup twice: the sources are where the services look for them, each role has
// a password that it can be given, and the second time changes none.
func TestComposeSetup(t *testing.T) {
	t.Parallel()
	project := loadCompose(t, "docker-compose.yml")
	volume := filepath.Join(t.TempDir(), "etc")
	passwords := func() map[string]string {
		t.Helper()
		runSetup(t, project, volume, project.Configs["sources"].Content)
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
	copied, err := os.ReadFile(filepath.Join(volume, "catchwater.yaml"))
	if err != nil || string(copied) != project.Configs["sources"].Content {
		t.Errorf("the sources are not copied: %v", err)
	}
}
