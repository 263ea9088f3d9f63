package rollout_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/rollout"
)

func TestPartitionOf(t *testing.T) {
	for _, tc := range []struct {
		percent  string
		replicas int32
		want     int32
	}{
		{"0%", 10, 0},
		{"100%", 10, 10},
		{"90%", 10, 9},
		{"50%", 10, 5},
		{"50%", 5, 3}, // rounded up
		{"1%", 10, 1},
		{"99%", 10, 9}, // at least one pod is updated
		{"90%", 5, 4},
		{"99%", 2, 1},
		{"99%", 1, 1}, // of one pod none
		{"100%", 1, 1},
		{"0%", 1, 0},
		{"90%", 0, 0},
		{"100%", 0, 0},
		{"100%", math.MaxInt32, math.MaxInt32},
		{"99%", math.MaxInt32, 2126008811},
	} {
		if got, err := rollout.PartitionOf(tc.percent, tc.replicas); got != tc.want || err != nil {
			t.Errorf("%s of %d: %d, error %v; want %d", tc.percent, tc.replicas, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "%", "5", "-1%", "101%", "1.5%", "+5%", " 5%", "5 %", "300%"} {
		if got, err := rollout.PartitionOf(text, 10); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestLimitOf(t *testing.T) {
	for _, tc := range []struct {
		text     string
		replicas int32
		want     int
	}{
		{"1", 10, 1}, {"20", 10, 20}, {"10%", 10, 1}, {"19%", 10, 1}, {"20%", 10, 2}, {"5%", 10, 1}, {"0%", 10, 1}, {"100%", 7, 7}, {"50%", 0, 1},
	} {
		if got, err := rollout.LimitOf(tc.text, tc.replicas); got != tc.want || err != nil {
			t.Errorf("%s of %d: %d, error %v; want %d", tc.text, tc.replicas, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "0", "-1", "two", "101%", "1e3", "99999999999"} {
		if got, err := rollout.LimitOf(text, 10); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestScaleOut(t *testing.T) {
	now := time.Unix(1e9, 0)
	gated := func(ordinal int64, name string) rollout.Pod {
		return rollout.Pod{Name: name, Ordinal: ordinal, Gated: true}
	}
	available := rollout.Pod{Name: "available", Ready: true, Since: now.Add(-time.Hour)}
	ended := func(p rollout.Pod) rollout.Pod { p.Ended = true; return p }
	starting, young := rollout.Pod{Name: "starting"}, rollout.Pod{Name: "young", Ready: true, Since: now.Add(-4 * time.Second)}
	three := []rollout.Pod{gated(10, "ten"), gated(2, "two"), gated(3, "three")}
	for name, tc := range map[string]struct {
		limit int
		pods  []rollout.Pod
		want  rollout.ScaleOutDecision
	}{
		"by ordinal":                        {2, three, rollout.ScaleOutDecision{Open: []string{"two", "three"}, Waiting: 1}},
		"all":                               {5, three, rollout.ScaleOutDecision{Open: []string{"two", "three", "ten"}}},
		"beside available ones":             {1, append(three, available, available), rollout.ScaleOutDecision{Open: []string{"two"}, Waiting: 2}},
		"beside one that starts":            {2, append(three, starting), rollout.ScaleOutDecision{Open: []string{"two"}, Waiting: 2}},
		"beside too many":                   {2, append(three, starting, starting, starting), rollout.ScaleOutDecision{Waiting: 3}},
		"beside one that terminates":        {1, append(three, ended(available)), rollout.ScaleOutDecision{Waiting: 3}},
		"beside one that failed":            {1, append(three, ended(starting)), rollout.ScaleOutDecision{Waiting: 3}},
		"beside a gated one that ends":      {1, append(three, ended(gated(0, "zero"))), rollout.ScaleOutDecision{Waiting: 3}},
		"beside one not Ready for too long": {1, append(three, young), rollout.ScaleOutDecision{Waiting: 3, Again: 6 * time.Second}},
		"nothing waits":                     {1, []rollout.Pod{young}, rollout.ScaleOutDecision{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := rollout.ScaleOut(rollout.ScaleOutInput{Limit: tc.limit, MinReady: 10 * time.Second, Pods: tc.pods, Now: now})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}
