package catchwater

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/catchwater/catchwater/pkg/source"
)

// hints is where a command writes what may help and was not asked for.
type hints struct{ io.Writer }

// unknownEffect says, where the sources file is known, that it has no such source
// or effect. That is no error: effects of a name that was taken out may be left.
func (h hints) unknownEffect(s *settings, sourceName, name string) {
	path, err := s.get("CATCHWATER_CONFIG")
	if err != nil {
		return
	}
	sources, err := source.Load(path)
	if err != nil {
		return
	}
	var sourceNames, names []string
	for _, known := range sources.Sources {
		sourceNames = append(sourceNames, known.Name)
		for _, e := range known.Effects {
			if sourceName == "" || known.Name == sourceName {
				names = append(names, e.Name)
			}
		}
	}
	switch {
	case sourceName != "" && !slices.Contains(sourceNames, sourceName):
		fmt.Fprintf(h, "Is the source's name right? %s has no %q; there are: %s\n", path, sourceName, strings.Join(sourceNames, ", "))
	case name != "" && !slices.Contains(names, name):
		fmt.Fprintf(h, "Is the effect's name right? %s has no %q there; there are: %s\n", path, name, cmp.Or(strings.Join(names, ", "), "none"))
	}
}
