package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 123456000, time.UTC)

// names are texts that a user could choose to forge fields, lines or JSON.
var names = []string{
	"", "-", "%2D", " ", "a b", "a\nb\n", "a,b", ",", "%", "%zz", "a\tb", "\x00", "\xff", "<\"&\\>", "ä€😀", "\u2028",
	"system:serviceaccount:kube-system:drainer", strings.Repeat("x y\n", 100),
}

func FuzzBookIsReadAsItWasWritten(f *testing.F) {
	for _, name := range names {
		f.Add(name, "web-0", int64(0), int64(7))
		f.Add("web-0", name, int64(1234567890123456), int64(-1))
	}
	f.Fuzz(func(t *testing.T, by, pod string, micros, generation int64) {
		at := metav1.NewMicroTime(noon.Add(time.Duration(micros%(1<<50)) * time.Microsecond))
		want := limpetv1alpha1.DisruptionBook{
			Entries: limpetv1alpha1.DisruptionEntries{
				{UID: types.UID(pod), Pod: pod, Use: "Gone", Vector: by, By: by, Since: at, Expires: at, Version: by, Generation: generation, Restarts: generation, Subset: by, Owner: types.UID(pod)},
				{UID: "u", Pod: "web-1", Use: "Changed", Vector: "evict", Since: at, Expires: at},
			},
			Waiting:   limpetv1alpha1.WaitingRequests{{UID: types.UID(by), Pod: pod, By: by, Since: at, Last: at}, {UID: "u", Pod: pod, By: by, Since: at, Last: at, ByWorkload: true}, {UID: "v", Pod: pod, Since: at, Last: at, Blocked: true}},
			Decisions: limpetv1alpha1.BookedDecisions{{Time: at, Pod: pod, Vector: by, Verdict: "Refused", Reason: by, By: by, Budgets: []string{"web", "a" + by}}},
		}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got limpetv1alpha1.DisruptionBook
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	})
}

func TestEntryIsOneLineThatPeopleCanRead(t *testing.T) {
	at := metav1.NewMicroTime(noon)
	data, err := json.Marshal(limpetv1alpha1.DisruptionBook{Entries: limpetv1alpha1.DisruptionEntries{{
		UID: "u1", Pod: "web-0", Use: "Gone", Vector: "evict", By: "jane doe", Since: at, Expires: at, Version: "42",
	}}})
	want := `"entries":"u1 web-0 Gone evict jane%20doe 2026-11-22T12:00:00.123456Z 2026-11-22T12:00:00.123456Z 42 0 0 - -\n"`
	if err != nil || !strings.Contains(string(data), want) {
		t.Errorf("%s, %v, want %s in it", data, err, want)
	}
	if data, err = json.Marshal(limpetv1alpha1.DisruptionBook{}); err != nil || strings.Contains(string(data), "entries") {
		t.Errorf("an empty book is %s, %v, want no entries", data, err)
	}
}

// A book that a person edited must not stop the watch of all books.
func TestLinesThatCannotBeReadAreLeftOut(t *testing.T) {
	const good = "u1 web-0 Gone evict - 2026-11-22T12:00:00Z 2026-11-22T12:00:40Z 42 0 0 - -"
	for name, c := range map[string]struct {
		entries string // as JSON
		want    int
	}{
		"one good line":                {`"` + good + `\n"`, 1},
		"without the last end of line": {`"` + good + `"`, 1},
		"an empty line between":        {`"` + good + `\n\n` + good + `\n"`, 2},
		"a field too few":              {`"u2 web-1\n` + good + `\n"`, 1},
		"a field too many":             {`"` + good + ` x\n` + good + `"`, 1},
		"a time that is none":          {`"` + strings.Replace(good, "2026", "when", 1) + `\n"`, 0},
		"a number that is none":        {`"` + strings.Replace(good, " 0 ", " x ", 1) + `\n"`, 0},
		"an escape that is none":       {`"` + strings.Replace(good, "web-0", "%zz", 1) + `\n"`, 0},
		"a list":                       {`[{"uid":"u1","pod":"web-0"}]`, 0},
		"null":                         {`null`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got limpetv1alpha1.DisruptionBook
			if err := json.Unmarshal([]byte(`{"seen":"7","entries":`+c.entries+`}`), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Entries) != c.want || got.Seen != "7" {
				t.Errorf("%+v, want %d entries", got, c.want)
			}
		})
	}
}
