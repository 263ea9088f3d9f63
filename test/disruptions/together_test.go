package disruptions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"
)

// auditLine is one line of an audit log: the time of a request and that of its answer, in seconds, what it does, and a pod.
func auditLine(t *testing.T, text string) string {
	t.Helper()
	var received, done float64
	var does, pod string
	if _, err := fmt.Sscan(text, &received, &done, &does, &pod); err != nil {
		t.Fatal(err)
	}
	verb, sub, code, request, status := "create", "eviction", 201, "{}", ""
	annotations := ""
	switch does {
	case "refused":
		code = 429
	case "dry":
		request = `{"deleteOptions":{"dryRun":["All"]}}`
	case "open":
		annotations = `"failed-open.validating.webhook.admission.k8s.io/round_0_index_1":"guarded.pods.limpet.dev"`
	case "deleted":
		verb, sub, code = "delete", "", 200
	case "made":
		sub, status = "", "False"
	case "crash":
		verb, sub, code, status = "update", "status", 200, "False"
	case "ready":
		verb, sub, code, status = "update", "status", 200, "True"
	}
	response := `{"kind":"Status"}`
	if status != "" {
		response = fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q,"resourceVersion":"7"},"status":{"conditions":[{"type":"Ready","status":%q}]}}`, pod, status)
	}
	at := func(seconds float64) string {
		return begin.Add(time.Duration(seconds * float64(time.Second))).Format("2006-01-02T15:04:05.000000Z")
	}
	return fmt.Sprintf(`{"stage":"ResponseComplete","verb":%q,"user":{"username":"someone"},"objectRef":{"resource":"pods","namespace":"shop","name":%q,"subresource":%q},`+
		`"responseStatus":{"code":%d},"requestObject":%s,"responseObject":%s,"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{%s}}`+"\n",
		verb, pod, sub, code, request, response, at(received), at(done), annotations)
}

// TestPodsThatAreAwayTogether reads the logs of two clusters, of whose pods a, b and d one may be away when a or b goes.
func TestPodsThatAreAwayTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		blue, green string // events
		want        string // part of the only violation
		requests    int
	}{
		"one after the other":         {"1 2 evicted a, 3 4 made a, 5 6 ready a", "5.5 6.5 evicted b", "", 2},
		"two at a time":               {"1 2 evicted a, 3 4 made a, 5 6 ready a", "4 4.000001 evicted b", "12:00:04.000: pod green/shop/b goes by create eviction of someone, and away are blue/shop/a since 12:00:02.000 by create eviction of someone", 2},
		"… one of them forever":       {"1 2 evicted a", "50 60 evicted b", "pod green/shop/b goes", 2},
		"… the other is deleted":      {"1 2 deleted a", "1 3 evicted b", "pod green/shop/b goes", 2},
		"… no guard answered":         {"1 2 evicted a", "4 5 open b", "", 2},
		"… before":                    {"1 2 open a", "4 5 evicted b", "", 2},
		"in one cluster":              {"1 2 evicted a, 1 3 deleted b", "", "pod blue/shop/b goes by delete of someone", 2},
		"a crash, then an eviction":   {"1 2 ready a, 3 4 crash a", "5 6 evicted b", "away are blue/shop/a since 12:00:04.000", 1},
		"an eviction, then a crash":   {"5 6 crash a", "3 4 evicted b", "", 1},
		"a pod that is away is asked": {"1 2 evicted a, 2 3 deleted a, 4 5 ready a", "6 7 crash b, 8 9 evicted b", "", 1},
		"a refusal, and a dry run":    {"1 2 evicted a", "3 4 refused b, 3 4 dry b", "", 1},
		"another group":               {"1 2 evicted a", "3 4 evicted c", "", 1},
		"a neighbour is not judged":   {"1 2 evicted a", "3 4 evicted d", "", 1},
		"… and counts":                {"3 4 evicted a", "1 2 evicted d", "pod blue/shop/a goes", 1},
		"an answer that is late":      {"1 9 evicted a, 2 3 made a, 4 5 ready a", "6 7 evicted b", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			logs := map[string][]disruptions.Event{}
			for cluster, events := range map[string]string{"blue": tc.blue, "green": tc.green} {
				var text strings.Builder
				for event := range strings.SplitSeq(events, ", ") {
					if event != "" {
						text.WriteString(auditLine(t, event))
					}
				}
				var err error
				logs[cluster], err = disruptions.Read(strings.NewReader(text.String()))
				must(t, err)
			}
			got, requests := disruptions.Together(logs, 1, func(_, _, pod string) (counts, judged bool) { return pod != "c", pod != "c" && pod != "d" })
			if requests != tc.requests || (len(got) > 0) != (tc.want != "") || len(got) > 1 || !strings.Contains(strings.Join(got, "\n"), tc.want) {
				t.Errorf("%d requests, want %d; violations %q, want %q", requests, tc.requests, got, tc.want)
			}
		})
	}
}
