package source

import (
	"os"
	"strings"
	"testing"
)

func TestTheExampleIsRight(t *testing.T) {
	t.Parallel()
	config, err := Load("../../catchwater.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range config.Sources {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "answers code mail payments shop" {
		t.Errorf("its sources are %s", got)
	}
}

// page returns a page of the documentation, whose examples have been taken.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(data), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Errorf("%s has no examples", name)
	}
	for _, block := range blocks {
		example, _, _ := strings.Cut(block, "```")
		if _, err := Parse(name, []byte(example)); err != nil {
			t.Errorf("%v in:\n%s", err, example)
		}
	}
	return string(data)
}

func TestTheReferenceOfEffectsIsRight(t *testing.T) {
	t.Parallel()
	text := page(t, "effects.md")
	for _, section := range []string{"colour: red", "http: {colour: red}", "slack: {colour: red}", "nats: {colour: red}"} {
		for _, key := range keysThatAre(t, "effects: [{name: a, "+section+"}]") {
			if !strings.Contains(text, "`"+key+"`") {
				t.Errorf("it does not tell of %s (%s)", key, section)
			}
		}
	}
	for _, placeholder := range Placeholders {
		if !strings.Contains(text, "`{"+placeholder+"}`") {
			t.Errorf("it does not tell of {%s}", placeholder)
		}
	}
}

func TestTheReferenceIsRight(t *testing.T) {
	t.Parallel()
	text := page(t, "sources.md")
	for name := range presets {
		if !strings.Contains(text, "| `"+name+"` |") {
			t.Errorf("it does not tell of preset %s", name)
		}
	}
	for _, section := range []string{
		"colour: red", "scheme: {colour: red}", "reconcile: {base_url: 'http://h', token: {env: T}, colour: red}",
		"reconcile: {base_url: 'http://h', token: {env: T}, answer: {colour: red}}", "messages: {colour: red}",
	} {
		for _, key := range keysThatAre(t, section) {
			if !strings.Contains(text, "`"+key+"`") {
				t.Errorf("it does not tell of %s (%s)", key, section)
			}
		}
	}
}

// keysThatAre are those that the error of an unknown key names.
func keysThatAre(t *testing.T, line string) []string {
	t.Helper()
	_, err := Parse("f.yaml", []byte("sources:\n  mine:\n    preset: answerline\n    secrets: [{env: A}]\n    "+line+"\n"))
	if err == nil {
		t.Fatal("an unknown key was taken")
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	_, list, found := strings.Cut(first, "there are ")
	if !found {
		t.Fatalf("got %v", err)
	}
	list, _, _ = strings.Cut(list, "\n")
	return strings.Split(list, ", ")
}
