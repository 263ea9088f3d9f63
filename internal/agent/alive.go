package agent

import "time"

// The loops of the agent, and how long each may go without completing a pass. A pass that
// ends with an error is complete: it is tried again, and a restart would change nothing.
const (
	partRounds = "rounds"
	partMirror = "mirror"
	// roundsWithin is longer than all waits of a round together: each of its few
	// transactions waits for the plugin's lock, 20 s at the most.
	roundsWithin = 3 * time.Minute
	// mirrorWithin is longer than the API server lets a request wait. An API server that is
	// down must not get the agents restarted.
	mirrorWithin = 10 * time.Minute
)

// startHealth begins to watch the loops.
func (a *Agent) startHealth() {
	now := a.Clock.Now()
	a.health.Add(partRounds, roundsWithin, now)
	a.health.Add(partMirror, mirrorWithin, now)
}

// Alive returns an error when a loop of the agent is stuck, so that it must be restarted.
func (a *Agent) Alive() error { return a.health.Verdict(a.Clock.Now()) }
