package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/catchwater/catchwater/services/catchwater"
	"github.com/catchwater/catchwater/services/ingress"
	"github.com/catchwater/catchwater/services/processor"
	"github.com/catchwater/catchwater/services/reconciler"
	"github.com/catchwater/catchwater/services/simulator"
)

// pages returns the text of README.md and of all that is in docs, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	read := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(data)
	}
	read(filepath.Join(root, "README.md"))
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	symbols = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what the headings of a page are linked to by.
func anchors(text string) []string {
	var found []string
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		found = append(found, strings.ReplaceAll(symbols.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	return found
}

// TestLinksLeadSomewhere follows every link within the documents.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for page, text := range all {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := match[1], match[2]
			if strings.Contains(target, ":") {
				continue // elsewhere
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %s leads nowhere", page, match[0])
			} else if anchor != "" && !slices.Contains(anchors(all[path]), anchor) {
				t.Errorf("%s: %s leads to no heading", page, match[0])
			}
		}
	}
}

// TestVariablesInTheDocumentsAreRead holds the names of settings in the documents
// to those that a program reads.
func TestVariablesInTheDocumentsAreRead(t *testing.T) {
	t.Parallel()
	known, err := catchwater.Environment()
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []any{&ingress.Config{}, &processor.Config{}, &reconciler.Config{}, &simulator.Config{}} {
		parser, err := kong.New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range parser.Model.Flags {
			known = append(known, flag.Envs...)
		}
	}
	for page, text := range pages(t) {
		for _, name := range regexp.MustCompile(`\bCATCHWATER_[A-Z_]+\b`).FindAllString(text, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: no program reads %s", page, name)
			}
		}
	}
}
