package rebuild_test

import (
	"testing"

	"github.com/limpet-io/limpet/test/e2e/rebuild"
)

func TestJudge(t *testing.T) {
	before := rebuild.Seen{Name: "web-0", Node: "n1", IPs: []string{"10.0.0.2", "fd00::2"}, UID: "a", Ready: true}
	cases := map[string]struct {
		change func(*rebuild.Seen)
		want   rebuild.Outcome
	}{
		"a new pod in the same place is kept":       {func(s *rebuild.Seen) { s.UID = "b" }, rebuild.Kept},
		"restarted containers are a rebuild":        {func(s *rebuild.Seen) { s.Restarts = 1 }, rebuild.Kept},
		"the same pod is no rebuild":                {func(*rebuild.Seen) {}, rebuild.Gone},
		"a new pod that is not Ready is no rebuild": {func(s *rebuild.Seen) { s.UID, s.Ready = "b", false }, rebuild.Gone},
		"a new pod in deletion is no rebuild":       {func(s *rebuild.Seen) { s.UID, s.Deleting = "b", true }, rebuild.Gone},
		"the addresses follow to another node":      {func(s *rebuild.Seen) { s.UID, s.Node = "b", "n2" }, rebuild.Followed},
		"another node and address is moved":         {func(s *rebuild.Seen) { s.UID, s.Node, s.IPs = "b", "n2", []string{"10.0.1.2"} }, rebuild.Moved},
		"one other address of two is lost":          {func(s *rebuild.Seen) { s.UID, s.IPs = "b", []string{"10.0.0.2", "fd00::3"} }, rebuild.Lost},
		"a missing family is lost":                  {func(s *rebuild.Seen) { s.UID, s.IPs = "b", []string{"10.0.0.2"} }, rebuild.Lost},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			after := before
			c.change(&after)
			if got := rebuild.Judge(before, after); got != c.want {
				t.Errorf("Judge() = %s, want %s", got, c.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	kept, of, moved := rebuild.Count([]rebuild.Result{
		{Outcome: rebuild.Kept, Answered: true},
		{Outcome: rebuild.Kept},                                          // no response
		{Outcome: rebuild.Lost, Answered: true},                          //
		{Outcome: rebuild.Moved, Answered: true, FreeToMove: "drained"},  // free to move
		{Outcome: rebuild.Moved, Answered: false, FreeToMove: "drained"}, // a pod that moved must respond, too
		{Outcome: rebuild.Lost, Answered: true, FreeToMove: "drained"},   // Lost is not Moved
		{Outcome: rebuild.Kept, Answered: true, FreeToMove: "drained"},
	})
	if kept != 2 || of != 6 || moved != 1 {
		t.Errorf("Count() = %d of %d, %d moved; want 2 of 6, 1 moved", kept, of, moved)
	}
}
