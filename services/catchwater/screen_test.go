package catchwater

import (
	"strings"
	"testing"
)

func TestMessagesStandByStatusBelowEachOther(t *testing.T) {
	t.Parallel()
	s := summary{statuses: []statusCount{{"queued", 2}, {"sent", 30}, {"opened", 123456}, {"unsubscribed", 7}}}
	want := "  messages     queued 2           sent 30          opened 123456\n" +
		"               unsubscribed 7"
	if got := strings.Join(s.messageLines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if s.messages() != 123495 {
		t.Errorf("counted %d messages", s.messages())
	}
	if lines := (summary{}).messageLines(); len(lines) != 0 {
		t.Errorf("without messages there are %q", lines)
	}
}
