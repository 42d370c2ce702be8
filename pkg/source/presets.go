package source

import (
	"time"

	"github.com/catchwater/catchwater/pkg/signature"
)

// preset is what is known about a provider. It is built from the same values
// that the file can set, so every part of it can be overridden there.
type preset struct {
	scheme     signature.Scheme
	identity   rules
	projection string
	keep       []string
	messages   messageSettings // for ProjectionMessages
	polls      bool            // whether the provider can be asked for the results of tasks
	path       string          // of one message's status at the provider's API, for ProjectionMessages
	answer     answerSettings  // what that says
}

// tolerance is what Stripe, Standard Webhooks and Answerline all name.
const tolerance = 300 * time.Second

// taskRules are those of providers of asynchronous tasks. A status that may
// still change must not take the place of the final one.
var taskRules = rules{
	key:         []keyPart{{ref: body("task.id")}},
	eventType:   body("task.status"),
	subject:     body("task.id"),
	occurredAt:  body("task.createdAt"),
	test:        condition{ref: body("test"), values: []string{"true"}},
	provisional: condition{ref: body("task.status"), values: []string{"QUEUED", "PROCESSING"}},
}

// presets are the providers known by name.
var presets = map[string]preset{
	// The reference names Webhook-Signature, the 300 s and one signature for
	// each valid secret; the exact form of the header is the common reading of
	// those, which is why each part of it is a setting.
	"answerline": {
		scheme: signature.Scheme{
			Header: "Webhook-Signature", Form: signature.FormPairs, SignatureKeys: []string{"v1"}, TimestampKey: "t",
			Signed: "{t}.{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Hex, Tolerance: tolerance,
		},
		identity:   taskRules,
		projection: ProjectionAnswers, keep: []string{"Webhook-Id"}, polls: true,
	},
	// Koltrix: X-Koltrix-Signature: sha256=<hex HMAC-SHA256 of the raw body>; the
	// time that counts is in the signed body, so no tolerance.
	"koltrix": {
		scheme: signature.Scheme{
			Header: "X-Koltrix-Signature", Form: signature.FormPairs, SignatureKeys: []string{"sha256"},
			Signed: "{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Hex,
		},
		identity: rules{
			key:       []keyPart{{ref: body("message_id")}, {ref: body("event")}, {ref: body("timestamp")}, {ref: body("to"), optional: true}},
			eventType: body("event"), subject: body("message_id"), occurredAt: body("timestamp"),
		},
		projection: ProjectionMessages, messages: koltrixMessages, keep: []string{"X-Koltrix-Event"},
		path: "/v1/messages/{id}", answer: koltrixAnswer,
	},
	// Cloro: v1=<hex HMAC-SHA256 of "{X-Cloro-Timestamp}.{body}">, the whsec_…
	// secret verbatim, 300 s; payload and key as Answerline's.
	"cloro": {
		scheme: signature.Scheme{
			Header: "X-Cloro-Signature", Form: signature.FormPairs, SignatureKeys: []string{"v1"},
			TimestampHeader: "X-Cloro-Timestamp", Signed: "{t}.{body}", Algorithm: signature.HMACSHA256,
			Encoding: signature.Hex, Tolerance: tolerance,
		},
		identity:   taskRules,
		projection: ProjectionAnswers, keep: []string{"X-Cloro-Webhook-Id"},
	},
	// The Standard Webhooks specification: "{webhook-id}.{webhook-timestamp}.{body}",
	// base64, space-separated versions, secret base64 after whsec_. The id is
	// part of what is signed, so it may be the key.
	"standard-webhooks": {
		scheme: signature.Scheme{
			Header: "Webhook-Signature", Form: signature.FormVersioned, SignatureKeys: []string{"v1"},
			TimestampHeader: "Webhook-Timestamp", IDHeader: "Webhook-Id", Signed: "{id}.{t}.{body}",
			Algorithm: signature.HMACSHA256, Encoding: signature.Base64, KeyForm: signature.Base64, KeyPrefix: "whsec_",
			Tolerance: tolerance,
		},
		identity:   rules{key: []keyPart{{ref: header("Webhook-Id")}}, eventType: body("type"), occurredAt: body("timestamp")},
		projection: ProjectionNone, keep: []string{"Webhook-Id"},
	},
	// Stripe, "Verify webhook signatures manually": t and v1 in Stripe-Signature,
	// "{t}.{body}", v0 to be ignored, 5 minutes.
	"stripe": {
		scheme: signature.Scheme{
			Header: "Stripe-Signature", Form: signature.FormPairs, SignatureKeys: []string{"v1"}, TimestampKey: "t",
			Signed: "{t}.{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Hex, Tolerance: tolerance,
		},
		identity: rules{
			key:       []keyPart{{ref: body("id")}},
			eventType: body("type"), subject: body("data.object.id"), occurredAt: body("created"),
		},
		projection: ProjectionNone,
	},
	// GitHub, "Validating webhook deliveries": X-Hub-Signature-256 over the body.
	// The body has no identity of its own, so the delivery's header is the key.
	"github": {
		scheme: signature.Scheme{
			Header: "X-Hub-Signature-256", Form: signature.FormPairs, SignatureKeys: []string{"sha256"},
			Signed: "{body}", Algorithm: signature.HMACSHA256, Encoding: signature.Hex,
		},
		identity: rules{
			key:       []keyPart{{ref: header("X-GitHub-Delivery")}},
			eventType: header("X-GitHub-Event"),
			test:      condition{ref: header("X-GitHub-Event"), values: []string{"ping"}},
		},
		projection: ProjectionNone, keep: []string{"X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-ID"},
	},
	// Everything is said in the file.
	"custom": {projection: ProjectionNone},
}
