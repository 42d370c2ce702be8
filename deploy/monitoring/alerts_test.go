package monitoring

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

const (
	accepted = `catchwater_ingress_deliveries_total{source="a",outcome="stored"} `
	forged   = `catchwater_ingress_deliveries_total{source="a",outcome="rejected_mismatch"} `
	probed   = `catchwater_ingress_deliveries_total{source="a",outcome="rejected_missing"} `
	ofA      = `source="a"`
)

// scenario is one alert's two stories: in one it has to fire, with these labels
// and not before the trouble began; in the other, which looks alike, it must not.
type scenario struct {
	alert  string
	labels string
	step   time.Duration // 1m when 0
	calm   int           // steps before the trouble
	steps  int           // in all
	fires  string
	quiet  string
}

// Until the calm ends all is as it should be.
var scenarios = []scenario{
	{
		alert: "CatchwaterSourceFailing", labels: ofA, calm: 60, steps: 100,
		fires: accepted + "0+5x59 300x40\n" + forged + "0x59 0+5x40",
		quiet: accepted + "0+5x100\n" + forged + "0x59 0+5x40", // a forger beside the sender
	},
	{
		alert: "CatchwaterSourceFailing", labels: ofA, step: 10 * time.Minute, calm: 100, steps: 220, // a sender that comes now and then
		fires: accepted + "0+1x99 100x120\n" + forged + "0x99 " + strings.TrimSuffix(strings.Repeat("1 1 1 1 1 1 2 2 2 2 2 2 3 3 3 3 3 3 4 4 4 4 4 4 ", 5), " "),
		quiet: accepted + "0x220\n" + forged + "0x99 0+1x120", // nothing ever passed: somebody probes
	},
	{
		alert: "CatchwaterSignatureFailures", labels: ofA, calm: 30, steps: 60,
		fires: accepted + "0+50x60\n" + probed + "0x29 0+1x30",
		quiet: accepted + "0+50x60\n" + probed + "0x29 0 1 2 3 4 4x25",
	},
	{
		alert: "CatchwaterSourceSilent", labels: ofA, calm: 290, steps: 345,
		fires: accepted + "0+2x289 578x60",
		quiet: accepted + "0x250 1000x95", // one burst, and nothing before or after it
	},
	{
		alert: "CatchwaterSourceSilent", labels: ofA, step: 10 * time.Minute, calm: 287, steps: 345, // more in some hours than in others
		fires: accepted + bursts(41) + " " + flat(41*20, 60),
		quiet: accepted + bursts(60),
	},
	{
		alert: "CatchwaterErrors", labels: ofA, calm: 20, steps: 40,
		fires: accepted + "0+60x40\n" + `catchwater_ingress_deliveries_total{source="a",outcome="unavailable"} 0x20 0+3x20`,
		quiet: accepted + "0+60x40\n" + `catchwater_ingress_deliveries_total{source="a",outcome="unavailable"} 0x20 1x20`,
	},
	{
		alert: "CatchwaterAnswersSlow", labels: ofA, calm: 20, steps: 45,
		fires: latency("0x20 0+100x25", "0x20 0+100x25", "0x20 0+110x25"),
		quiet: latency("0x20 0+100x25", "0x20 0+110x25", "0x20 0+110x25"),
	},
	{
		alert: "CatchwaterDuplicates", labels: ofA, calm: 30, steps: 70,
		fires: accepted + "0+5x70\n" + `catchwater_ingress_deliveries_total{source="a",outcome="duplicate"} 0x29 0+5x40`,
		quiet: accepted + "0+100x70\n" + `catchwater_ingress_deliveries_total{source="a",outcome="duplicate"} 0x29 0+5x40`,
	},
	{
		alert: "CatchwaterConflicts", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_ingress_deliveries_total{source="a",outcome="conflict"} 0x29 1x10`,
		quiet: `catchwater_ingress_deliveries_total{source="a",outcome="duplicate"} 0x29 1x10`,
	},
	{
		alert: "CatchwaterBodiesRefused", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_ingress_deliveries_total{source="a",outcome="rejected_too_large"} 0x29 0+1x10`,
		quiet: `catchwater_ingress_deliveries_total{source="a",outcome="rejected_too_large"} 0x29 1x10`,
	},
	{
		alert: "CatchwaterIngressFull", labels: `instance="i"`, calm: 30, steps: 40,
		fires: limits("0x29 3900x10", "0x40"),
		quiet: limits("0x29 2000x10", "0x29 100000000x10"),
	},
	{
		alert: "CatchwaterIngressFull", labels: `instance="i"`, calm: 30, steps: 40,
		fires: limits("0x40", "0x29 250000000x10"),
		quiet: limits("0x29 4096 0x10", "0x40"), // for a moment
	},
	{
		alert: "CatchwaterAnnounceFailures", calm: 30, steps: 50,
		fires: "catchwater_ingress_announce_failures_total 0x29 0+1x20",
		quiet: "catchwater_ingress_announce_failures_total 5x50",
	},
	{
		alert: "CatchwaterBacklogAge", labels: ofA, calm: 30, steps: 60,
		fires: `catchwater_inbox_oldest_seconds{source="a",state="pending"} 0x29 0+60x30`,
		quiet: `catchwater_inbox_oldest_seconds{source="a",state="waiting"} 0x29 0+60x30`,
	},
	{
		alert: "CatchwaterBacklogGrowing", labels: ofA, calm: 30, steps: 80,
		fires: `catchwater_inbox_rows{source="a",state="pending"} 0x29 0+100x50`,
		quiet: `catchwater_inbox_rows{source="a",state="pending"} 0x29 20000-300x50`, // worked off
	},
	{
		alert: "CatchwaterBacklogUnknown", calm: 30, steps: 60,
		fires: "catchwater_inbox_counted_timestamp_seconds 0+60x29 1740x30",
		quiet: `catchwater_inbox_counted_timestamp_seconds{instance="1"} 0+60x29 1740x30` + "\n" + `catchwater_inbox_counted_timestamp_seconds{instance="2"} 0+60x60`,
	},
	{
		alert: "CatchwaterRowsFailing", labels: ofA, calm: 30, steps: 60,
		fires: `catchwater_processor_rows_total{source="a",outcome="failed"} 0x29 0+1x30`,
		quiet: `catchwater_processor_rows_total{source="a",outcome="processed"} 0x29 0+1x30`,
	},
	{
		alert: "CatchwaterBatchesFailing", calm: 30, steps: 60,
		fires: `catchwater_processor_batch_failures_total{via="scan"} 0x29 0+1x30`,
		quiet: `catchwater_processor_batch_failures_total{via="scan"} 7x60`,
	},
	{
		alert: "CatchwaterQuarantine", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_inbox_rows{source="a",state="quarantined"} 0x29 1x10`,
		quiet: `catchwater_inbox_rows{source="a",state="waiting"} 0x29 1x10`,
	},
	{
		alert: "CatchwaterOrphans", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_inbox_orphans{source="a"} 0x29 1x10`,
		quiet: `catchwater_inbox_orphans{source="a"} 0x40`,
	},
	{
		alert: "CatchwaterDoorbellDown", labels: `job="processor",instance="p"`, calm: 30, steps: 60,
		fires: `catchwater_processor_doorbell_up{job="processor",instance="p"} 1x29 0x30`,
		quiet: `catchwater_processor_doorbell_up{instance="p"} 1x29 0 0 1x30`, // the broker was restarted
	},
	{
		alert: "CatchwaterDoorbellDown", labels: `job="ingress",instance="i"`, calm: 30, steps: 60,
		fires: `catchwater_ingress_broker_up{job="ingress",instance="i"} 1x29 0x30`,
		quiet: `catchwater_ingress_broker_up{instance="i"} 1x60`,
	},
	{
		alert: "CatchwaterEffectsGivenUp", labels: `source="a",effect="crm"`, calm: 30, steps: 40,
		fires: `catchwater_effects_given_up{source="a",effect="crm"} 0x29 2x10`,
		quiet: `catchwater_effects_given_up{source="a",effect="crm"} 0x40`,
	},
	{
		alert: "CatchwaterEffectsLate", labels: `source="a",effect="crm"`, calm: 30, steps: 60,
		fires: `catchwater_effects_oldest_seconds{source="a",effect="crm"} 0x29 0+60x30`,
		quiet: `catchwater_effects_oldest_seconds{source="a",effect="crm"} 0x29 300x30`,
	},
	{
		alert: "CatchwaterRecovered", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_reconciler_recovered_total{source="a"} 0x29 1x10`,
		quiet: `catchwater_reconciler_polls_total{source="a",result="not_final"} 0x29 0+1x10`,
	},
	{
		alert: "CatchwaterPastHorizon", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_tasks_past_horizon{source="a"} 0x29 1x10`,
		quiet: `catchwater_tasks_overdue{source="a"} 0x29 1x10`,
	},
	{
		alert: "CatchwaterMessagesStuck", labels: ofA, calm: 60, steps: 120,
		fires: `catchwater_messages_stuck{source="a"} 0x59 0+10x60` + "\n" + processed,
		quiet: `catchwater_messages_stuck{source="a"} 0x59 20x60` + "\n" + processed,
	},
	{
		alert: "CatchwaterPollsUnauthorized", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_reconciler_polls_total{source="a",result="unauthorized"} 0x29 1x10`,
		quiet: `catchwater_reconciler_polls_total{source="a",result="final"} 0x29 1x10`,
	},
	{
		alert: "CatchwaterPollsLimited", labels: ofA, calm: 30, steps: 90,
		fires: `catchwater_reconciler_polls_total{source="a",result="too_many_requests"} 0x29 0+1x60`,
		quiet: `catchwater_reconciler_polls_total{source="a",result="too_many_requests"} 0x29 1x60`,
	},
	{
		alert: "CatchwaterPollsFailing", labels: ofA, calm: 30, steps: 70,
		fires: polls("0+1x70", "0x29 0+3x40"),
		quiet: polls("0+3x70", "0x29 0+1x40"),
	},
	{
		alert: "CatchwaterPollsUnusable", labels: ofA, calm: 30, steps: 40,
		fires: `catchwater_reconciler_polls_total{source="a",result="not_found"} 0x29 1x10`,
		quiet: `catchwater_reconciler_polls_total{source="a",result="not_final"} 0x29 1x10`,
	},
	{
		alert: "CatchwaterScanStalled", labels: ofA, calm: 30, steps: 60,
		fires: `catchwater_reconciler_last_scan_timestamp_seconds{source="a"} 0+60x29 1740x30`,
		quiet: `catchwater_reconciler_last_scan_timestamp_seconds{source="a",instance="1"} 0+60x29 _x30` + "\n" + // another leads now
			`catchwater_reconciler_last_scan_timestamp_seconds{source="a",instance="2"} _x29 1740+60x30`,
	},
	{
		alert: "CatchwaterUpkeepStalled", step: time.Hour, calm: 24, steps: 60,
		fires: "catchwater_reconciler_last_upkeep_timestamp_seconds 0+3600x23 82800x36",
		quiet: "catchwater_reconciler_last_upkeep_timestamp_seconds 0+3600x23 82800x20 162000+3600x20",
	},
	{
		alert: "CatchwaterServiceDown", labels: `job="processor"`, calm: 30, steps: 40,
		fires: ready("1x29 0x10", "1x29 0x10") + "\n" + `catchwater_ready{job="ingress"} 1x40`,
		quiet: ready("1x29 0x10", "1x40") + "\n" + `catchwater_ready{job="ingress"} 1x40`, // one of two
	},
	{
		alert: "CatchwaterServiceDown", labels: `job="ingress"`, calm: 30, steps: 50,
		fires: ready("1x50", "1x50") + "\n" + `catchwater_ready{job="ingress",instance="i"} 1x29 _x20`, // cannot be scraped
		quiet: ready("1x50", "1x50") + "\n" + `catchwater_ready{job="ingress",instance="i"} 1x50`,
	},
	{
		alert: "CatchwaterInstanceUnready", labels: `job="ingress",instance="i"`, calm: 30, steps: 50,
		fires: `up{job="ingress",instance="i"} 1x29 0x20`,
		quiet: `up{job="ingress",instance="i"} 1x29 0 0 0 1x20`, // restarted
	},
	{
		alert: "CatchwaterInstanceUnready", labels: `job="reconciler",instance="r"`, calm: 30, steps: 50,
		fires: `catchwater_ready{job="reconciler",instance="r"} 1x29 0x20`,
		quiet: `up{job="node",instance="r"} 1x29 0x20`,
	},
	{
		alert: "CatchwaterNoLeader", calm: 30, steps: 50,
		fires: `catchwater_reconciler_leader{instance="1"} 1x29 0x20` + "\n" + `catchwater_reconciler_leader{instance="2"} 0x50`,
		quiet: `catchwater_reconciler_leader{instance="1"} 1x29 0x20` + "\n" + `catchwater_reconciler_leader{instance="2"} 0x32 1x17`,
	},
}

// processed is 100 rows a minute, 6,000 an hour.
const processed = `catchwater_processor_rows_total{source="a",outcome="processed"} 0+100x120`

// bursts are steps in each of which 20 come, or none, in turn of hours: of each
// six steps five have none.
func bursts(hours int) string {
	var b strings.Builder
	for n := range hours {
		b.WriteString(flat(n*20, 5) + " " + flat((n+1)*20, 0) + " ")
	}
	return strings.TrimSpace(b.String())
}

// flat is a value and so many times the same again.
func flat(value, more int) string {
	return strings.TrimSpace(strings.Repeat(strconv.Itoa(value)+" ", more+1))
}

func latency(within100ms, within1s, all string) string {
	const bucket = `catchwater_ingress_answer_duration_seconds_bucket{source="a",le="`
	return bucket + `0.1"} ` + within100ms + "\n" + bucket + `1"} ` + within1s + "\n" + bucket + `2.5"} ` + all + "\n" + bucket + `+Inf"} ` + all
}

func limits(queued, bytes string) string {
	return `catchwater_ingress_queued{instance="i"} ` + queued + "\n" + `catchwater_ingress_queue_limit{instance="i"} 4096x40` + "\n" +
		`catchwater_ingress_body_bytes{instance="i"} ` + bytes + "\n" + `catchwater_ingress_body_limit_bytes{instance="i"} 268435456x40`
}

func polls(final, failed string) string {
	return `catchwater_reconciler_polls_total{source="a",result="final"} ` + final + "\n" +
		`catchwater_reconciler_polls_total{source="a",result="no_answer"} ` + failed
}

// ready are two processors, and a reconciler that is well.
func ready(one, other string) string {
	return `catchwater_ready{job="processor",instance="1"} ` + one + "\n" + `catchwater_ready{job="processor",instance="2"} ` + other + "\n" +
		`catchwater_ready{job="reconciler"} 1x50`
}

// TestAlerts plays every scenario.
func TestAlerts(t *testing.T) {
	tested, named := make(map[string]bool), make(map[string][]string)
	for _, rule := range alerts(t) {
		for _, text := range rule.Annotations {
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				named[rule.Alert] = append(named[rule.Alert], label[1])
			}
		}
	}
	for _, s := range scenarios {
		tested[s.alert] = true
		t.Run(s.alert, func(t *testing.T) {
			t.Parallel()
			step := s.step
			if step == 0 {
				step = time.Minute
			}
			fired := false
			for n, now := range play(t, step, s.fires, s.steps) {
				for _, got := range now[s.alert] {
					fired = true
					if n < s.calm {
						t.Fatalf("it fires at step %d, while all is well", n)
					}
					if !hasLabels(got, s.labels) {
						t.Fatalf("it fires with %s, want %s", got, s.labels)
					}
					for _, label := range named[s.alert] {
						if !got.Has(label) {
							t.Fatalf("it speaks of the label %s, and has %s", label, got)
						}
					}
				}
			}
			if !fired {
				t.Error("it does not fire")
			}
			for n, now := range play(t, step, s.quiet, s.steps) {
				if len(now[s.alert]) > 0 {
					t.Fatalf("it fires without a reason, at step %d: %s", n, now[s.alert])
				}
			}
		})
	}
	for _, rule := range alerts(t) {
		if !tested[rule.Alert] {
			t.Errorf("%s has no scenario", rule.Alert)
		}
	}
}

// hasLabels reports whether an alert has the labels, beside its name and severity.
func hasLabels(got labels.Labels, want string) bool {
	rest := got.Map()
	delete(rest, labels.AlertName)
	delete(rest, "severity")
	expected := map[string]string{}
	for pair := range strings.SplitSeq(want, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			expected[name] = strings.Trim(value, `"`)
		}
	}
	return maps.Equal(rest, expected)
}

// TestNothingFiresWhenAllIsWell plays half a day of a healthy system.
func TestNothingFiresWhenAllIsWell(t *testing.T) {
	const steps = 12 * 60
	well := []string{
		accepted + "0+60x720", `catchwater_ingress_deliveries_total{source="a",outcome="duplicate"} 0+1x720`, forged + "0x720", probed + "0x100 1x620",
		`catchwater_ingress_deliveries_total{source="a",outcome="unavailable"} 0x720`,
		latency("0+60x720", "0+60x720", "0+60x720"),
		`catchwater_ingress_queued{instance="i"} 3x720`, `catchwater_ingress_queue_limit{instance="i"} 4096x720`,
		`catchwater_ingress_announce_failures_total 0x720`,
		`catchwater_inbox_rows{source="a",state="pending"} 5x720`, `catchwater_inbox_rows{source="a",state="quarantined"} 0x720`,
		`catchwater_inbox_oldest_seconds{source="a",state="pending"} 1x720`, `catchwater_inbox_counted_timestamp_seconds 0+60x720`,
		`catchwater_inbox_orphans{source="a"} 0x720`, `catchwater_messages_stuck{source="a"} 3x720`,
		`catchwater_processor_rows_total{source="a",outcome="processed"} 0+60x720`, `catchwater_processor_rows_total{source="a",outcome="failed"} 0x720`,
		`catchwater_processor_batch_failures_total{via="scan"} 0x720`, `catchwater_processor_doorbell_up{instance="p"} 1x720`,
		`catchwater_effects_given_up{source="a",effect="crm"} 0x720`, `catchwater_effects_oldest_seconds{source="a",effect="crm"} 2x720`,
		`catchwater_reconciler_recovered_total{source="a"} 0x720`, `catchwater_tasks_past_horizon{source="a"} 0x720`,
		`catchwater_reconciler_polls_total{source="a",result="not_final"} 0+1x720`, `catchwater_reconciler_polls_total{source="a",result="no_answer"} 0x720`,
		`catchwater_reconciler_last_scan_timestamp_seconds{source="a"} 0+60x720`, `catchwater_reconciler_last_upkeep_timestamp_seconds 0+60x720`,
		`catchwater_reconciler_leader{instance="1"} 1x720`, `catchwater_reconciler_leader{instance="2"} 0x720`,
	}
	for _, job := range []string{"ingress", "processor", "reconciler"} {
		well = append(well, `up{job="`+job+`",instance="1"} 1x720`, `catchwater_ready{job="`+job+`",instance="1"} 1x720`)
	}
	for n, now := range play(t, time.Minute, strings.Join(well, "\n"), steps) {
		if len(now) > 0 {
			t.Fatalf("after %d minutes fire: %v", n, slices.Sorted(maps.Keys(now)))
		}
	}
}
