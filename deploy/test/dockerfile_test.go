package test

import (
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// stages reads the Dockerfile as BuildKit does.
func stages(t *testing.T) []instructions.Stage {
	t.Helper()
	file, err := os.Open(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed.Warnings) > 0 {
		t.Errorf("BuildKit warns: %v", parsed.Warnings)
	}
	found, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func stage(t *testing.T, name string) instructions.Stage {
	t.Helper()
	all := stages(t)
	n, ok := instructions.HasStage(all, name)
	if !ok {
		t.Fatalf("the Dockerfile has no target %s", name)
	}
	return all[n]
}

// commands returns a stage's instructions of one kind.
func commands[T any](s instructions.Stage) []T {
	var found []T
	for _, command := range s.Commands {
		if c, ok := command.(T); ok {
			found = append(found, c)
		}
	}
	return found
}

// TestImages holds every target to what an image is to be: its own program from
// the build stage and nothing else, on nothing, under no privileged user.
func TestImages(t *testing.T) {
	base := stage(t, "base")
	if base.BaseName != "scratch" {
		t.Errorf("images stand on %s", base.BaseName)
	}
	if users := commands[*instructions.UserCommand](base); len(users) != 1 || users[0].User != "65532:65532" {
		t.Errorf("images run as %v", users)
	}
	if tag := stage(t, "build").BaseName; !strings.HasPrefix(tag, "golang:1.26.") {
		t.Errorf("the programs are built by %s", tag)
	}
	for _, program := range programs {
		s := stage(t, program)
		copies, entries := commands[*instructions.CopyCommand](s), commands[*instructions.EntrypointCommand](s)
		if s.BaseName != "base" || len(copies) != 1 || len(entries) != 1 || len(commands[*instructions.RunCommand](s)) > 0 {
			t.Errorf("target %s is not one program on the base", program)
			continue
		}
		from := copies[0].SourcesAndDest
		if copies[0].From != "build" || !slices.Equal(from.SourcePaths, []string{"/src/out/" + program}) || from.DestPath != "/"+program {
			t.Errorf("target %s copies %v to %s", program, from.SourcePaths, from.DestPath)
		}
		if !slices.Equal(entries[0].CmdLine, []string{"/" + program}) {
			t.Errorf("target %s starts %v", program, entries[0].CmdLine)
		}
		var exposed []string
		for _, command := range commands[*instructions.ExposeCommand](s) {
			exposed = append(exposed, command.Ports...)
		}
		slices.Sort(exposed)
		var ports []string
		if program != "catchwater" {
			ports = configure(t, program, map[string]string{}, nil).portsAnywhere(t)
		}
		if !slices.Equal(exposed, ports) {
			t.Errorf("target %s exposes %v, and the program listens on %v", program, exposed, ports)
		}
	}
}

// TestBuildIsReproducible runs the build stage's command twice: in two places, of
// which the second has nothing that the first has compiled. The programs must be
// the same, static, and stamped with the version.
func TestBuildIsReproducible(t *testing.T) {
	t.Parallel()
	build := stage(t, "build")
	var environment []string
	for _, command := range commands[*instructions.EnvCommand](build) {
		for _, pair := range command.Env {
			environment = append(environment, pair.Key+"="+pair.Value)
		}
	}
	runs := commands[*instructions.RunCommand](build)
	if len(runs) != 1 || !runs[0].PrependShell {
		t.Fatalf("the build stage runs %v", runs)
	}
	script := strings.Join(runs[0].CmdLine, "\n")
	run := func(cache string) map[string][32]byte {
		t.Helper()
		dir := t.TempDir()
		copyContext(t, dir)
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "VERSION=1.2.3-test", "GOWORK=")
		cmd.Env = append(cmd.Env, environment...)
		if cache != "" {
			cmd.Env = append(cmd.Env, "GOCACHE="+cache)
		}
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		sums := make(map[string][32]byte)
		for _, program := range programs {
			file := filepath.Join(dir, "out", program)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sums[program] = sha256.Sum256(data)
			assertStatic(t, file)
		}
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "out", "ingress"), "--version").Output()
		if err != nil || strings.TrimSpace(string(out)) != "ingress 1.2.3-test" {
			t.Errorf("ingress --version says %q, %v", out, err)
		}
		return sums
	}
	first, second := run(""), run(t.TempDir())
	for _, program := range programs {
		if first[program] != second[program] {
			t.Errorf("%s is another one when it is built elsewhere", program)
		}
	}
}

// assertStatic fails for a program that needs a loader, or does not tell what it
// is made of.
func assertStatic(t *testing.T, file string) {
	t.Helper()
	binary, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", path.Base(file))
		}
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil || len(info.Deps) == 0 {
		t.Errorf("%s does not tell what it is made of: %v", path.Base(file), err)
	}
}
