package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/catchwater/catchwater/pkg/effects"
	"github.com/catchwater/catchwater/pkg/source"
)

// slackTarget posts a message to an incoming webhook of Slack's kind.
type slackTarget struct {
	still
	settings *source.SlackEffect
	options  Options
}

func openSlack(s *source.Source, e *source.Effect, o Options) (Target, error) {
	t := &slackTarget{settings: e.Slack, options: o}
	if _, err := t.url(); err != nil {
		return nil, placeError(s, e, "slack.url", err)
	}
	return t, nil
}

// url returns the webhook's URL as it stands now.
func (t *slackTarget) url() (string, error) {
	url, err := source.ReadSecret(t.settings.URL, t.options.Getenv)
	if err != nil {
		return "", err
	}
	if err := source.CheckURL(url); err != nil {
		return "", fmt.Errorf("%s: %w", t.settings.URL, err)
	}
	return url, nil
}

// escape is what Slack asks for in texts: these three and no others.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (t *slackTarget) Perform(ctx context.Context, call *effects.Call) error {
	url, err := t.url()
	if err != nil {
		return err
	}
	text := t.settings.Text.Fill(func(placeholder string) string { return escape.Replace(value(call, placeholder)) })
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return post(ctx, t.options.Transport, url, http.Header{"Content-Type": {"application/json"}}, body, call)
}

// value is what a placeholder stands for.
func value(call *effects.Call, placeholder string) string {
	return map[string]string{
		"source": call.Source, "type": call.Type, "subject": call.Subject, "status": call.Change.Status, "previous": call.Change.Previous,
		"event_key": call.EventKey, "time": call.At().Format(time.RFC3339),
	}[placeholder]
}
