package spread_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
)

// shown are the subsets of some ordinals as one text, such as "aab-".
func shown(a spread.Assignment, ordinals ...int32) string {
	var out strings.Builder
	for _, o := range ordinals {
		name := a.Of(o).Subset
		if name == "" {
			name = "-"
		}
		out.WriteString(name)
	}
	return out.String()
}

// upTo are the ordinals below a number.
func upTo(n int32) []int32 {
	var all []int32
	for o := range n {
		all = append(all, o)
	}
	return all
}

// running are the subsets of pods as one text; "-" is a pod that does not exist.
func running(text string) map[int32]string {
	pods := map[int32]string{}
	for o, name := range text {
		if name != '-' {
			pods[int32(o)] = string(name)
		}
	}
	return pods
}

// recorded are the zones of recorded nodes as one text; "-" is a pod without a record.
func recorded(text string) map[int32]spread.Home {
	homes := map[int32]spread.Home{}
	for o, name := range running(text) {
		homes[o] = spread.Home{Node: aNode(fmt.Sprint("n", o), name)}
	}
	return homes
}

func TestAssign(t *testing.T) {
	three := of(inZone("a", 2), inZone("b", 2), inZone("c", -1))
	for name, tc := range map[string]struct {
		spread   spread.Spread
		replicas int32
		pods     string
		homes    string
		want     string
	}{
		"new pods by ordinal":                             {three, 6, "", "", "aabbcc"},
		"some of them exist":                              {three, 6, "a--b", "", "aabbcc"},
		"pods keep their subsets":                         {three, 4, "cba-", "", "cbaa"},
		"a hole is filled":                                {three, 6, "aab-cc", "", "aabbcc"},
		"a hole of a pod that has moved":                  {three, 5, "cabb-", "", "cabba"},
		"two holes, each by its ordinal":                  {three, 5, "a-b--", "", "aabbc"},
		"a pod that moved comes back first":               {three, 6, "-abbcc", "", "aabbcc"},
		"a maximum was raised":                            {of(inZone("a", 4), inZone("c", -1)), 6, "aaccc-", "", "aaccca"},
		"a workload has grown":                            {of(inZone("a", 4), inZone("c", -1)), 10, "aacc", "", "aaccaacccc"},
		"a maximum was lowered":                           {of(inZone("a", 1), inZone("b", 1), inZone("c", -1)), 4, "aabb", "", "acbc"},
		"a skipped subset gets none":                      {of(skipping(inZone("a", 2)), inZone("b", 2), inZone("c", -1)), 6, "-abb-c", "", "cabbcc"},
		"no other ordinal moves for a skipped subset":     {of(skipping(inZone("a", 2)), inZone("b", 2), inZone("c", -1)), 6, "", "", "ccbbcc"},
		"no subset is left":                               {of(inZone("a", 1), inZone("b", 1)), 4, "---a", "", "-b-a"},
		"a subset that is gone":                           {three, 3, "xyz", "", "aab"},
		"records keep their subsets":                      {three, 5, "", "cba--", "cbaab"},
		"an existing pod keeps before a record":           {of(inZone("a", 1), inZone("c", -1)), 3, "-a-", "a--", "cac"},
		"of two records the lowest ordinal":               {of(inZone("a", 1), inZone("c", -1)), 3, "", "-aa", "cac"},
		"a record in a skipped subset":                    {of(skipping(inZone("a", 1)), inZone("c", -1)), 2, "", "ca", "cc"},
		"a record outside all subsets":                    {three, 3, "", "x--", "aab"},
		"a record does not count for a pod that exists":   {three, 2, "ab", "ba", "ab"},
		"records of ordinals that are not wanted":         {of(inZone("a", 2), inZone("c", -1)), 2, "--aa", "---a", "aa"},
		"a maximum of 0":                                  {of(inZone("a", 0), inZone("c", -1)), 2, "", "", "cc"},
		"no replicas":                                     {three, 0, "", "", ""},
		"a limited subset after one without a maximum":    {of(inZone("a", -1), inZone("b", 1)), 3, "", "", "aaa"},
		"subsets whose nodes are the same keep by number": {of(inAny("a", 1), inAny("b", -1)), 3, "", "xxx", "abb"},
	} {
		t.Run(name, func(t *testing.T) {
			in := spread.OrdinalInput{Spread: tc.spread, Desired: workload.Desired{Replicas: tc.replicas}, Pods: running(tc.pods), Homes: recorded(tc.homes)}
			if got := shown(spread.Assign(in), upTo(tc.replicas)...); got != tc.want {
				t.Errorf("subsets %s, want %s", got, tc.want)
			}
		})
	}
}

// inAny is a subset of all nodes.
func inAny(name string, most int32) spread.Subset {
	s := inZone(name, most)
	s.Required = nil
	return s
}

func TestAssignSkipsOrdinalsThatAreNotWanted(t *testing.T) {
	in := spread.OrdinalInput{
		Spread:  of(inZone("a", 2), inZone("b", 2), inZone("c", -1)),
		Desired: workload.Desired{Replicas: 5, Start: 10, Reserved: []workload.Span{{First: 1, Last: 10}, {First: 12, Last: 13}, {First: 99, Last: 99}}},
	}
	if got := shown(spread.Assign(in), 11, 14, 15, 16, 17); got != "aabbc" {
		t.Errorf("wanted ordinals: %s", got)
	}
	for _, ordinal := range []int32{0, 9, 10, 12, 13, 18, math.MaxInt32} {
		if got := spread.Assign(in).Of(ordinal); got.Reason != spread.ReasonNotWanted || got.Subset != "c" {
			t.Errorf("ordinal %d: %+v", ordinal, got)
		}
	}
	in.Spread = of(inZone("a", 5))
	if got := spread.Assign(in).Of(18); got.Reason != spread.ReasonNoneFits || got.Subset != "" {
		t.Errorf("an ordinal that is not wanted got a slot of another: %+v", got)
	}
}

func TestAssignTellsWhy(t *testing.T) {
	skips := of(skipping(inZone("a", 2)), inZone("b", 1), inZone("c", -1))
	place := []corev1.NodeSelectorRequirement{is(zone, "a")}
	for name, tc := range map[string]struct {
		spread  spread.Spread
		pods    string
		homes   map[int32]spread.Home
		ordinal int32
		want    spread.Decision
	}{
		"a pod that exists":    {skips, "a", nil, 0, spread.Decision{Subset: "a", Reason: spread.ReasonEarlier}},
		"a new pod":            {skips, "aab", nil, 3, spread.Decision{Subset: "c", Reason: spread.ReasonFilled}},
		"a pod that returns":   {skips, "", recorded("---c"), 3, spread.Decision{Subset: "c", Reason: spread.ReasonReturns}},
		"a skipped subset":     {skips, "-a", nil, 0, spread.Decision{Subset: "c", Home: "a", Reason: spread.ReasonFilled}},
		"home is skipped":      {skips, "", recorded("a"), 0, spread.Decision{Subset: "c", Home: "a", Unpinned: true, Reason: spread.ReasonSkipped}},
		"home is full":         {skips, "--b", recorded("---b"), 3, spread.Decision{Subset: "c", Unpinned: true, Reason: spread.ReasonFull}},
		"home is in no subset": {skips, "", recorded("---x"), 3, spread.Decision{Subset: "c", Unpinned: true, Reason: spread.ReasonNoSubset}},
		"a required place, and the node is gone": {
			of(inZone("c", -1), inZone("a", 2)), "", map[int32]spread.Home{0: {Place: place}}, 0, spread.Decision{Subset: "a", Reason: spread.ReasonReturns},
		},
		"a required place that the node has left": {
			of(inZone("c", -1), inZone("a", 2)), "",
			map[int32]spread.Home{0: {Node: aNode("n1", "c"), Place: place}},
			0,
			spread.Decision{Subset: "a", Reason: spread.ReasonReturns},
		},
		"a required place in no subset": {skips, "", map[int32]spread.Home{0: {Place: []corev1.NodeSelectorRequirement{is(zone, "x")}}}, 0, spread.Decision{Reason: spread.ReasonNoSubset}},
		"a required place that is full": {
			of(inZone("a", 1), inZone("c", -1)), "a",
			map[int32]spread.Home{1: {Node: aNode("n1", "a"), Place: place}},
			1,
			spread.Decision{Subset: "a", Reason: spread.ReasonRequired},
		},
		"a required place that is skipped":       {skips, "", map[int32]spread.Home{0: {Node: aNode("n1", "a"), Place: place}}, 0, spread.Decision{Subset: "a", Reason: spread.ReasonReturns}},
		"home is skipped, and its node has room": {skips, "", map[int32]spread.Home{0: {Node: aNode("n1", "a"), Room: true}}, 0, spread.Decision{Subset: "a", Reason: spread.ReasonReturns}},
	} {
		t.Run(name, func(t *testing.T) {
			in := spread.OrdinalInput{Spread: tc.spread, Desired: workload.Desired{Replicas: 5}, Pods: running(tc.pods), Homes: tc.homes}
			got := spread.Assign(in).Of(tc.ordinal)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(spread.Decision{}, "Message")); diff != "" || got.Message == "" {
				t.Errorf("decision with message %q (-want +got):\n%s", got.Message, diff)
			}
		})
	}
}

// A tenant may write any number of replicas, and any number of reserved ordinals.
func TestAssignOfManyOrdinals(t *testing.T) {
	in := spread.OrdinalInput{
		Spread:  of(inZone("a", 1<<30), inZone("b", math.MaxInt32), inZone("c", -1)),
		Desired: workload.Desired{Replicas: math.MaxInt32, Start: 0},
		Pods:    map[int32]string{0: "c", math.MaxInt32 - 1: "a"},
	}
	for i := range int32(100_000) {
		in.Desired.Reserved = append(in.Desired.Reserved, workload.Span{First: 10 * (i + 1), Last: 10*(i+1) + 1})
	}
	if got := shown(spread.Assign(in), 1, 1<<30, 1<<30+200_001, math.MaxInt32-1); got != "aaba" {
		t.Errorf("subsets %s", got)
	}
}

// Two pods are rebuilt at the same time, and the caches of two replicas know of one deletion each.
func TestAssignIsTheSameForCachesThatDifferByARebuild(t *testing.T) {
	for name, s := range map[string]spread.Spread{
		"fixed":   of(inZone("a", 2), inZone("b", 2), inZone("c", -1)),
		"limited": of(inZone("a", 2), inZone("b", 2), inZone("c", 2)),
	} {
		desired := workload.Desired{Replicas: 6}
		whole := running(shown(spread.Assign(spread.OrdinalInput{Spread: s, Desired: desired}), upTo(6)...))
		for first := range int32(6) {
			for second := range int32(6) {
				pods := map[int32]string{}
				for o, subset := range whole {
					if o != first && o != second {
						pods[o] = subset
					}
				}
				both := spread.Assign(spread.OrdinalInput{Spread: s, Desired: desired, Pods: pods}).Of(first).Subset
				if second != first {
					pods[second] = whole[second]
				}
				if one := spread.Assign(spread.OrdinalInput{Spread: s, Desired: desired, Pods: pods}).Of(first).Subset; one != both || one != whole[first] {
					t.Errorf("%s: ordinal %d beside %d gets %s or %s, and had %s", name, first, second, one, both, whole[first])
				}
			}
		}
	}
}
