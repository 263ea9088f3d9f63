package cni_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// of returns a sandbox whose pod has an owner.
func of(owner, pod string) sandbox {
	s := lostSandbox(pod, true)
	s.annotations = maps.Clone(s.annotations)
	s.annotations[reservation.OwnerAnnotation] = owner
	return s
}

const db = "apps/Deployment/web/db"

// TestOwnerComesBackUnderAnotherName ends a pod of an owner. Only a later pod of the same owner gets the addresses.
func TestOwnerComesBackUnderAnotherName(t *testing.T) {
	elsewhere := of(db, "web-2")
	elsewhere.ns = "other"
	for name, tc := range map[string]struct {
		first, second sandbox
		comesBack     bool
	}{
		"the same owner":                     {of(db, "web-1"), of(db, "web-2"), true},
		"a pod without a controller":         {of("///db", "a"), of("///db", "b"), true},
		"another owner":                      {of(db, "web-1"), of("apps/Deployment/web/other", "web-2"), false},
		"the owner of another controller":    {of(db, "web-1"), of("apps/Deployment/other/db", "web-2"), false},
		"the owner in another namespace":     {of(db, "web-1"), elsewhere, false},
		"an owner that was not completed":    {of("db", "web-1"), of("db", "web-2"), false},
		"a pod whose name is that of it":     {of(db, "web-1"), lostSandbox("db", true), false},
		"an owner that has the name of it":   {lostSandbox("db", true), of("db", "web-2"), false},
		"the same pod, with its annotation":  {lostSandbox("web-1", true), of(db, "web-1"), false},
		"the same pod, once not completed":   {of("db", "web-1"), of("db", "web-1"), true},
		"a pod whose runtime tells it later": {lostSandbox("web-1", true), of(db, "web-2"), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			had := w.mustAdd(tc.first)
			w.mustDel(tc.first)
			second := tc.second
			second.id += "-next"
			got := w.mustAdd(second)
			if slices.Equal(got, had) != tc.comesBack {
				t.Errorf("had %v, got %v", had, got)
			}
			w.mustDel(tc.first) // late
			if left := w.read().Attached[second.attachment()].Addresses; !slices.Equal(left, got) {
				t.Errorf("after a late DEL %v are attached, want %v", left, got)
			}
		})
	}
}

// TestSecondLivePodOfAnOwner starts a pod of an owner whose pod lives. It waits as for a predecessor, and then gets a free
// address. The first pod keeps its own.
func TestSecondLivePodOfAnOwner(t *testing.T) {
	w, first, second := newTestNode(t), of(db, "web-1"), of(db, "web-2")
	w.start(first)
	had := w.mustAdd(first)
	w.start(second)
	if _, err := w.add(second); codeOf(err) != types.ErrTryAgainLater {
		t.Fatalf("got %v, want code 11", err)
	}
	w.pass(predecessorWait)
	got := w.mustAdd(second)
	if attached := w.read().Attached; slices.Equal(got, had) || !slices.Equal(attached[first.attachment()].Addresses, had) {
		t.Errorf("had %v, got %v; attached: %v", had, got, attached)
	}
	w.mustDel(second)
	w.mustDel(first)
	third := of(db, "web-3")
	if again := w.mustAdd(third); !slices.Equal(again, got) {
		t.Errorf("after the end of both got %v, want %v of the later life", again, got)
	}
}
