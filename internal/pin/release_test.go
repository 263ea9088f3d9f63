package pin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/pin"
)

func TestParseRelease(t *testing.T) {
	cases := map[string]struct {
		after, on string // "-" is for not there
		want      pin.Release
		wantErrs  int
	}{
		"nothing is said":             {after: "-", on: "-"},
		"both, with blanks":           {" 10m ", "deleted, out-of-service", pin.Release{After: 10 * time.Minute, On: []pin.ReleaseTrigger{pin.TriggerDeleted, pin.TriggerOutOfService}}, 0},
		"every fate":                  {"-", "deleted,out-of-service,not-ready,cordoned,tainted", pin.Release{On: []pin.ReleaseTrigger{pin.TriggerDeleted, pin.TriggerOutOfService, pin.TriggerNotReady, pin.TriggerCordoned, pin.TriggerTainted}}, 0},
		"a number without a unit":     {"10", "-", pin.Release{}, 1},
		"less than a second":          {"10ms", "-", pin.Release{}, 1},
		"a negative duration":         {"-10m", "-", pin.Release{}, 1},
		"an empty list":               {"-", " ,", pin.Release{}, 1},
		"an unknown fate, and a good": {"-", "full,deleted", pin.Release{On: []pin.ReleaseTrigger{pin.TriggerDeleted}}, 1},
	}
	for name, tc := range cases {
		for _, named := range []string{"limpet.dev/leave-", "limpet.dev/release-"} {
			t.Run(name+", "+named, func(t *testing.T) {
				annotations := map[string]string{}
				for key, value := range map[string]string{named + "after": tc.after, named + "on": tc.on} {
					if value != "-" {
						annotations[key] = value
					}
				}
				got, errs := pin.ParseRelease(annotations)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("release (-want +got):\n%s", diff)
				}
				if len(errs) != tc.wantErrs {
					t.Errorf("errors %v, want %d", errs, tc.wantErrs)
				}
				for _, err := range errs {
					if !strings.HasPrefix(err.Field, "metadata.annotations["+named) {
						t.Errorf("error %v does not name the annotation", err)
					}
				}
			})
		}
	}
	both := map[string]string{pin.AnnotationLeaveAfter: "10m", pin.AnnotationReleaseAfter: "5m"}
	if got, _ := pin.ParseRelease(both); got.After != 10*time.Minute {
		t.Errorf("with both names %+v, want that of the present one", got)
	}
}
