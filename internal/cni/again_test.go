package cni_test

import (
	"fmt"
	"testing"
	"time"
)

// TestTheSamePodKeepsItsAddress makes the sandbox of a pod that asks for nothing again, as after a reboot or when its sandbox was
// killed.
func TestTheSamePodKeepsItsAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		pause  time.Duration
		reboot bool
		others int // pods that start meanwhile
		uid    string
		kept   bool
	}{
		"at once":                        {uid: "u", kept: true},
		"after hours":                    {uid: "u", pause: 5 * time.Hour, kept: true},
		"after a reboot":                 {uid: "u", reboot: true, kept: true},
		"beside others":                  {uid: "u", others: 4, kept: true},
		"a pod that needed it has it":    {uid: "u", others: 5},
		"another pod of the name":        {uid: "v"},
		"a pod whose UID is not known":   {uid: ""},
		"the other interface of the pod": {uid: "u", others: -1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.ipam = oneStack
			s := plain("web")
			s.uid = "u"
			had := w.mustAdd(s)[0]
			w.stop(s)
			w.pass(tc.pause)
			if tc.reboot {
				w.reboot(time.Minute)
			}
			for n := range tc.others {
				w.mustAdd(plain(fmt.Sprint("other", n)))
			}
			if tc.others == 5 { // all others of the pool
				w.stop(plain("other1"))
			}
			s.id, s.uid = "again", tc.uid
			if tc.others < 0 {
				s.ifName = "net1"
			}
			if got := w.mustAdd(s)[0]; (got == had) != tc.kept {
				t.Errorf("got %s, had %s", got, had)
			}
			if tc.kept && len(w.owners) > 0 {
				t.Errorf("the node forgot the owners of %v", w.owners)
			}
		})
	}
}

// TestManyPodsPushAPodOutOfMemory starts and ends more pods than the state remembers. The pod that ended before them gets an
// address all the same, and the last of them gets its own.
func TestManyPodsPushAPodOutOfMemory(t *testing.T) {
	w := newTestNode(t)
	early := plain("early")
	early.uid = "early"
	w.mustAdd(early)
	w.stop(early)
	var last sandbox
	var had string
	for n := range 300 {
		last = plain(fmt.Sprint("churn", n))
		last.uid = last.pod
		had = w.mustAdd(last)[0].String()
		w.stop(last)
	}
	early.id = "early again"
	w.mustAdd(early)
	last.id = "last again"
	if got := w.mustAdd(last)[0].String(); got != had {
		t.Errorf("the last pod got %s, had %s", got, had)
	}
}
