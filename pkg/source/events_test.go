package source

import (
	"fmt"
	"strings"
	"testing"
)

func TestEachElementOfAnArrayIsAnEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at, body, want string
	}{
		"the body itself":    {"$", `[{"id":"1","n":1.0}, {"id":"2"}]`, `1 {"id":"1","n":1.0}; 2 {"id":"2"}`},
		"inside":             {"data.events", `{"data":{"events":[ {"id":"1"} ]},"id":"9"}`, `1 {"id":"1"}`},
		"a test is left out": {"$", `[{"id":"1","test":true},{"id":"2"}]`, `2 {"id":"2"}`},
		"only tests":         {"$", `[{"id":"1","test":true}]`, ""},
		"one without its key": {"$", `[{"id":"1"},{"n":2},3]`,
			`1 {"id":"1"}; ` + hashKey([]byte(`{"n":2}`)) + ` {"n":2} (the delivery has no id, which identifies it); ` + hashKey([]byte("3")) + ` 3 (the delivery has no id, which identifies it)`},
		"empty":     {"$", `[]`, hashKey([]byte(`[]`)) + ` [] (the array of events at $ is empty)`},
		"no array":  {"data", `{"data":{}}`, hashKey([]byte(`{"data":{}}`)) + ` {"data":{}} (there is no array of events at data)`},
		"not there": {"data", `{}`, hashKey([]byte(`{}`)) + ` {} (there is no array of events at data)`},
		"not JSON":  {"$", `[1`, hashKey([]byte(`[1`)) + ` [1 (the body is not JSON: at byte 2: the document ends early)`},
		"too many":  {"$", "[1" + strings.Repeat(",1", MaxEvents) + "]", "(the array of events at $ has 10001; one body may hold 10000)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := keyed(t, "key: [id]", "events: "+c.at, `test: {field: test, equals: "true"}`)
			var got []string
			for _, event := range s.Events(nil, []byte(c.body), []byte(c.body)) {
				text := fmt.Sprintf("%s %s", event.EventKey, event.Body)
				if event.Quarantine != "" {
					text += " (" + event.Quarantine + ")"
				}
				got = append(got, text)
			}
			if text := strings.Join(got, "; "); text != c.want && (len(text) < 1000 || !strings.HasSuffix(text, c.want)) {
				t.Errorf("got  %.500s\nwant %s", text, c.want)
			}
		})
	}
}

func TestABodyThatIsNoArrayIsOneEvent(t *testing.T) {
	t.Parallel()
	events := keyed(t, "key: [id]").Events(nil, []byte("signed"), []byte(`{"id":"1"}`))
	if len(events) != 1 || events[0].EventKey != "1" || string(events[0].Body) != "signed" {
		t.Errorf("got %+v", events)
	}
}
