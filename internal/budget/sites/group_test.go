package sites_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget/sites"
)

// position is a place in a ring that goes through three clusters.
func position(i int) sites.Site {
	i = (i + 9) % 9
	return sites.SiteOf([]string{"red", "green", "blue"}[i%3], fmt.Sprintf("%d0", i), "ring")
}

// neighbours is the budget of a position: it names the two sites before and behind it.
func neighbours(i int) sites.Spec {
	s := sites.Spec{MinAvailable: new(intstr.FromInt32(4))}
	for at := i - 2; at <= i+2; at++ {
		s.Members = append(s.Members, position(at))
	}
	slices.Sort(s.Members)
	return s
}

// TestARingOverClusters has nine positions of one pod, each with its four neighbours, of which four of five must be
// available: any two within distance 2 exclude each other, and three may be away at once.
func TestARingOverClusters(t *testing.T) {
	all := map[sites.Site]sites.Heard{}
	for i := range 9 {
		all[position(i)] = sites.Heard{Spec: neighbours(i), Expected: 1}
	}
	in := map[string][]int{} // positions by group
	for i := range 9 {
		groups, problem := sites.GroupsOf(position(i), neighbours(i), 1, all)
		if problem != "" || len(groups) != 4 {
			t.Fatalf("position %d: groups %v, problem %q; want one with each neighbour", i, groups, problem)
		}
		for _, g := range groups {
			if in[g.ID] = append(in[g.ID], i); g.Least || g.Number != 1 {
				t.Errorf("position %d: %+v", i, g)
			}
		}
	}
	exclude := map[[2]int]bool{}
	for id, both := range in {
		if len(both) != 2 {
			t.Fatalf("group %s has positions %v", id, both)
		}
		exclude[[2]int(both)] = true
	}
	most := 0
	for set := range 1 << 9 {
		var away []int
		for i := range 9 {
			if set>>i&1 == 1 {
				away = append(away, i)
			}
		}
		if !slices.ContainsFunc(pairs(away), func(p [2]int) bool { return exclude[p] }) {
			most = max(most, len(away))
		}
	}
	if most != 3 || len(exclude) != 18 || !exclude[[2]int{0, 8}] || !exclude[[2]int{3, 5}] || exclude[[2]int{0, 3}] {
		t.Errorf("%d may be away at once, and %d pairs exclude each other; want 3 and 18", most, len(exclude))
	}
}

func pairs(of []int) (all [][2]int) {
	for i, a := range of {
		for _, b := range of[i+1:] {
			all = append(all, [2]int{a, b})
		}
	}
	return all
}

func TestGroups(t *testing.T) {
	one, two := new(intstr.FromInt32(1)), new(intstr.FromInt32(2))
	both := []sites.Site{"/a/db", "/b/db"}
	three := []sites.Site{"/a/db", "/b/db", "/c/db"}
	for _, tc := range []struct {
		name    string
		own     sites.Spec
		peers   map[sites.Site]sites.Heard
		members []int // of each group
		problem string
	}{
		{name: "all name the same", own: sites.Spec{MaxUnavailable: two, Members: three}, members: []int{3}, peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: three}}, "/c/db": {Spec: sites.Spec{MaxUnavailable: two, Members: three}},
		}},
		{name: "a peer was not read", own: sites.Spec{MaxUnavailable: one, Members: both}, problem: "/b/db was not found", peers: map[sites.Site]sites.Heard{
			"/b/db": {Problem: "was not found"},
		}},
		{name: "another number", own: sites.Spec{MaxUnavailable: one, Members: both}, problem: "another number", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: both}},
		}},
		{name: "another field", own: sites.Spec{MaxUnavailable: one, Members: both}, problem: "another number", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MinAvailable: one, Members: both}},
		}},
		{name: "other peers, and two may be away", own: sites.Spec{MaxUnavailable: two, Members: three}, problem: "2 pods may be away", peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: two, Members: both}}, "/c/db": {Spec: sites.Spec{MaxUnavailable: two, Members: three}},
		}},
		{name: "other peers, and one may be away", own: sites.Spec{MaxUnavailable: one, Members: three}, members: []int{2, 2}, peers: map[sites.Site]sites.Heard{
			"/b/db": {Spec: sites.Spec{MaxUnavailable: one, Members: both}}, "/c/db": {Spec: sites.Spec{MaxUnavailable: one, Members: three}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			groups, problem := sites.GroupsOf("/a/db", tc.own, 1, tc.peers)
			var members []int
			for _, g := range groups {
				members = append(members, len(g.Members))
			}
			if !slices.Equal(members, tc.members) || (problem == "") != (tc.problem == "") || !strings.Contains(problem, tc.problem) {
				t.Errorf("groups of %v members, problem %q; want %v, %q", members, problem, tc.members, tc.problem)
			}
		})
	}
}
