package groups_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget/groups"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

func sliding(size, step int32, wrap bool) *limpetv1alpha1.BudgetGroups {
	return &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: "label", Label: "at", Size: size, Step: step, Wrap: wrap}}
}

// positions are 00, 10, 20 and so on, as the article names them.
func positions(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%02d", 10*i))
	}
	return all
}

func TestOf(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   *limpetv1alpha1.BudgetGroups
		places []string
		want   string
	}{
		"one group":                   {nil, []string{""}, ": "},
		"by label":                    {&limpetv1alpha1.BudgetGroups{ByLabel: "rack"}, []string{"a", "b"}, "rack=a: a|rack=b: b"},
		"pods without a place":        {&limpetv1alpha1.BudgetGroups{ByLabel: "rack"}, []string{"", "b"}, "without rack: |rack=b: b"},
		"ring of five, three each":    {sliding(3, 1, true), positions(5), "at=00..20: 00 10 20|at=10..30: 10 20 30|at=20..40: 20 30 40|at=30..00: 30 40 00|at=40..10: 40 00 10"},
		"row of five, three each":     {sliding(3, 1, false), positions(5), "at=00..20: 00 10 20|at=10..30: 10 20 30|at=20..40: 20 30 40"},
		"row, the last is moved back": {sliding(3, 3, false), positions(5), "at=00..20: 00 10 20|at=20..40: 20 30 40"},
		"row without a rest":          {sliding(2, 2, false), positions(4), "at=00..10: 00 10|at=20..30: 20 30"},
		"ring with a step":            {sliding(3, 2, true), positions(5), "at=00..20: 00 10 20|at=20..40: 20 30 40|at=40..10: 40 00 10"},
		"ring as long as its windows": {sliding(3, 1, true), positions(3), "at=00..20: 00 10 20"},
		"shorter than a window":       {sliding(5, 1, false), positions(2), "at=00..10: 00 10"},
		"windows of one":              {sliding(1, 1, true), positions(2), "at=00: 00|at=10: 10"},
		"no step is one":              {sliding(2, 0, false), positions(3), "at=00..10: 00 10|at=10..20: 10 20"},
		"nothing":                     {sliding(2, 1, true), nil, ""},
	} {
		var got []string
		for _, g := range groups.Of(tc.spec, tc.places) {
			got = append(got, g.Name+": "+strings.Join(g.Places, " "))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%s: groups (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhichPositionsExcludeEachOther is the ring of the article. Each of its positions shares a budget with two
// neighbours on either side: these are the windows of three. At most one of each window may be away.
func TestWhichPositionsExcludeEachOther(t *testing.T) {
	for _, tc := range []struct {
		positions, size, distance, atOnce int
	}{
		{9, 3, 2, 3},
		{10, 3, 2, 3},
		{9, 5, 4, 1}, // 4 of 5 in a row: quorums of five
		{15, 5, 4, 3},
		{9, 1, 0, 9},
	} {
		places := positions(tc.positions)
		all := groups.Of(sliding(int32(tc.size), 1, true), places)
		for i := range places {
			for j := range places {
				apart := min((i-j+tc.positions)%tc.positions, (j-i+tc.positions)%tc.positions)
				share := slices.ContainsFunc(all, func(g groups.Group) bool {
					return slices.Contains(g.Places, places[i]) && slices.Contains(g.Places, places[j])
				})
				if share != (apart <= tc.distance) {
					t.Errorf("%d positions, windows of %d: %s and %s share a window: %v", tc.positions, tc.size, places[i], places[j], share)
				}
			}
		}
		if most := mostAtOnce(places, all); most != tc.atOnce {
			t.Errorf("%d positions, windows of %d: %d may be away at once, want %d", tc.positions, tc.size, most, tc.atOnce)
		}
	}
}

// mostAtOnce tries all sets of positions.
func mostAtOnce(places []string, all []groups.Group) (most int) {
	for set := range 1 << len(places) {
		away, fits := 0, true
		for _, g := range all {
			in := 0
			for i, place := range places {
				if set>>i&1 == 1 && slices.Contains(g.Places, place) {
					in++
				}
			}
			fits = fits && in <= 1
		}
		for i := range places {
			away += set >> i & 1
		}
		if fits {
			most = max(most, away)
		}
	}
	return most
}

// TestEachPlaceHasItsGroups holds With against Of, and bounds how many groups a place has.
func TestEachPlaceHasItsGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := 1 + random.Int32N(8)
		spec := sliding(size, 1+random.Int32N(size), random.IntN(2) == 0)
		if random.IntN(4) == 0 {
			spec = &limpetv1alpha1.BudgetGroups{ByLabel: "rack"}
		}
		places := positions(1 + random.IntN(20))
		if random.IntN(3) == 0 {
			places = append([]string{""}, places...)
		}
		all := groups.Of(spec, places)
		for _, place := range places {
			of := groups.With(spec, places, place)
			var want []groups.Group
			for _, g := range all {
				if slices.Contains(g.Places, place) {
					want = append(want, g)
				}
			}
			if diff := cmp.Diff(want, of); diff != "" || len(of) == 0 || len(of) > groups.Most(spec) {
				t.Fatalf("%+v: groups of %q among %v (-want +got):\n%s", spec, place, places, diff)
			}
		}
		for _, g := range all {
			if s := spec.Sliding; s != nil && g.Places[0] != "" && len(g.Places) != min(int(s.Size), len(places)-slices.Index(places, "00")) {
				t.Fatalf("%+v: window %v of %v is not full", s, g, places)
			}
		}
	}
}

func TestSort(t *testing.T) {
	want := []string{"", "0", "00", "a", "a-1-0", "a-2-0", "a-2-1", "a-10-0", "db-0", "db-2", "db-010-1", "db-10", "db-11", "db-x", "dbx"}
	for range 100 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		groups.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
	}
}

// TestSortIsAnOrder sorts random words twice: an order that contradicts itself gives two results.
func TestSortIsAnOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		words := make([]string, 8)
		for i := range words {
			for range random.IntN(6) {
				words[i] += string("01a-"[random.IntN(4)])
			}
		}
		once := slices.Clone(words)
		groups.Sort(once)
		random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		groups.Sort(words)
		if diff := cmp.Diff(once, words); diff != "" {
			t.Fatalf("two orders:\n%s", diff)
		}
	}
}

func TestPlaceOf(t *testing.T) {
	ordinal := &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: "ordinal", Size: 3}}
	pod := func(name, kind, owner string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"rack": "a"},
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: new(true)}},
		}
	}
	for name, tc := range map[string]struct {
		spec *limpetv1alpha1.BudgetGroups
		pod  *metav1.ObjectMeta
		want string
	}{
		"one group":              {nil, pod("db-1", "StatefulSet", "db"), ""},
		"label":                  {&limpetv1alpha1.BudgetGroups{ByLabel: "rack"}, pod("db-1", "StatefulSet", "db"), "a"},
		"no label":               {&limpetv1alpha1.BudgetGroups{ByLabel: "shard"}, pod("db-1", "StatefulSet", "db"), ""},
		"ordinal":                {ordinal, pod("db-1", "StatefulSet", "db"), "db-1"},
		"of a set with a number": {ordinal, pod("db-1-1", "StatefulSet", "db-1"), "db-1-1"},
		"of another set":         {ordinal, pod("db-1", "StatefulSet", "web"), ""},
		"no ordinal":             {ordinal, pod("db-x", "StatefulSet", "db"), ""},
		"of a ReplicaSet":        {ordinal, pod("db-1", "ReplicaSet", "db"), ""},
		"of nothing":             {ordinal, &metav1.ObjectMeta{Name: "db-1"}, ""},
	} {
		if got := groups.PlaceOf(tc.spec, tc.pod); got != tc.want {
			t.Errorf("%s: place %q, want %q", name, got, tc.want)
		}
	}
}

func TestSizes(t *testing.T) {
	rack := &limpetv1alpha1.BudgetGroups{ByLabel: "rack"}
	ordinal := &limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: "ordinal", Size: 3}}
	index := &limpetv1alpha1.BudgetGroups{ByLabel: appsv1.PodIndexLabel}
	a := map[string]string{"rack": "a"}
	type at = map[string]int32
	for name, tc := range map[string]struct {
		spec     *limpetv1alpha1.BudgetGroups
		workload groups.Workload
		want     at
		anywhere int32
	}{
		"one group":                         {nil, groups.Workload{Wants: 3, Living: at{"": 2}}, at{"": 3}, 0},
		"template has the label":            {rack, groups.Workload{Wants: 3, Labels: a, Living: at{"a": 1}}, at{"a": 3}, 0},
		"no pod exists yet":                 {rack, groups.Workload{Wants: 3, Labels: a}, at{"a": 3}, 0},
		"a rollout has more pods":           {rack, groups.Workload{Wants: 3, Labels: a, Living: at{"a": 4}}, at{"a": 3}, 0},
		"a pod lost its label":              {rack, groups.Workload{Wants: 3, Labels: a, Living: at{"a": 2, "": 1}}, at{"a": 3}, 0},
		"the template got another label":    {rack, groups.Workload{Wants: 3, Labels: a, Living: at{"b": 2}}, at{"b": 2}, 1},
		"labels stamped on pods":            {rack, groups.Workload{Wants: 4, Living: at{"a": 1, "b": 2}}, at{"a": 1, "b": 2}, 1},
		"a pod waits for its label":         {rack, groups.Workload{Wants: 3, Living: at{"a": 1, "b": 1, "": 1}}, at{"a": 1, "b": 1}, 1},
		"more pods than wanted":             {rack, groups.Workload{Wants: 2, Living: at{"a": 2, "b": 2}}, at{"a": 2, "b": 2}, 0},
		"replicas of a set":                 {ordinal, groups.Workload{Set: "db", Start: 5, Wants: 2, Living: at{"db-9": 1}}, at{"db-5": 1, "db-6": 1}, 0},
		"replicas by their index":           {index, groups.Workload{Set: "db", Wants: 2}, at{"0": 1, "1": 1}, 0},
		"replicas of another kind":          {ordinal, groups.Workload{Wants: 3, Living: at{"db-0": 1}}, at{"db-0": 1}, 2},
		"two billions of replicas":          {ordinal, groups.Workload{Set: "db", Wants: 1<<31 - 1, Living: at{"db-0": 1}}, at{"db-0": 1}, 1<<31 - 2},
		"a set with the label of the group": {rack, groups.Workload{Set: "db", Wants: 2, Labels: a}, at{"a": 2}, 0},
	} {
		got := groups.Sizes{At: at{}}
		got.Add(tc.spec, tc.workload)
		if diff := cmp.Diff(tc.want, got.At); diff != "" || got.Anywhere != tc.anywhere {
			t.Errorf("%s: %d anywhere, want %d; at places (-want +got):\n%s", name, got.Anywhere, tc.anywhere, diff)
		}
	}
}

// TestSizesAreBounded asks for more places than are counted one by one.
func TestSizesAreBounded(t *testing.T) {
	s := groups.Sizes{At: map[string]int32{}}
	for i := range 100 {
		s.Add(&limpetv1alpha1.BudgetGroups{Sliding: &limpetv1alpha1.SlidingGroups{OrderBy: "ordinal", Size: 3}}, groups.Workload{Set: fmt.Sprint("db", i), Wants: 15_000})
	}
	if len(s.At) > groups.MostPlaced || int(s.Anywhere)+len(s.At) != 100*15_000 {
		t.Errorf("%d places and %d pods anywhere, want all %d and at most %d places", len(s.At), s.Anywhere, 100*15_000, groups.MostPlaced)
	}
}
