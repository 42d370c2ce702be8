package pgserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNoBinaries says that the machine has no Postgres server.
var ErrNoBinaries = errors.New("no Postgres server binaries found (initdb, postgres): install your system's PostgreSQL server package, 14 or newer, or put them on the PATH")

// FindBinaries returns the folder of the newest Postgres server on the machine:
// where package managers put it, or on the PATH.
func FindBinaries() (string, error) {
	var folders []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // Red Hat
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		folders = append(folders, found...)
	}
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	if path, err := exec.LookPath("initdb"); err == nil {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(resolved))
		}
	}
	for _, folder := range folders {
		if HasBinaries(folder) {
			return folder, nil
		}
	}
	return "", ErrNoBinaries
}

// HasBinaries reports whether a folder has what Start needs.
func HasBinaries(folder string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// version is the first number in a path, and 0 without one.
func version(path string) int {
	for i := 0; i < len(path); i++ {
		end := i
		for end < len(path) && path[end] >= '0' && path[end] <= '9' {
			end++
		}
		if n, err := strconv.Atoi(path[i:end]); err == nil {
			return n
		}
	}
	return 0
}
