package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// copyContext copies what .dockerignore lets through, which is what the build
// stage has.
func copyContext(t *testing.T, to string) {
	t.Helper()
	list, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	patterns, err := ignorefile.ReadAll(list)
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	// Whole trees that no pattern lets through are not walked.
	for _, top := range patterns {
		kept, ok := strings.CutPrefix(top, "!")
		if !ok {
			continue
		}
		err := filepath.WalkDir(filepath.Join(root, kept), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			if ignored, err := matcher.MatchesOrParentMatches(name); err != nil || ignored {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			target := filepath.Join(to, name)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
			return os.WriteFile(target, data, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
